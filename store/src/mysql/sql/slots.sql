-- The slots of pools. A pool has a row for each of its slots from the beginning, so that a claim finds what it may have in an
-- index and passes over what others have locked. The core's pool says which one it gets.
--
-- Whoever claims locks the row of its pool in a mode that no other claim minds; whoever withdraws an owner's claims, or changes
-- the pool's size, locks it alone, and so comes before or after each claim and never into the midst of one. A pool of size 0 is
-- none yet.
CREATE TABLE IF NOT EXISTS lease_pool (
    pool VARBINARY(255) NOT NULL PRIMARY KEY,
    size INT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- `free_from` is the end of the slot's lease, or, where there is none, since when it counts as free; it is NULL where it was
-- never used. `asker` is the owner whose attempts the slot remembers: two claims of one owner that come at once lock two
-- slots, and the second one fails by that key, is asked again, and finds the first. `mark`, `window_after`: stamps of ID
-- time. `down` is the number with its sign turned, for an index that is read from its end. Whoever looks for a row by an index
-- that is not the first choice names it: any other one leads through rows that others have locked.
CREATE TABLE IF NOT EXISTS lease_slot (
    pool VARBINARY(255) NOT NULL,
    slot INT NOT NULL,
    down INT NOT NULL,
    last_issued BIGINT NOT NULL DEFAULT 0,
    observed BIGINT NOT NULL DEFAULT 0,
    asker BIGINT,
    attempt BIGINT,
    owner BIGINT,
    token BIGINT,
    granted_at BIGINT,
    free_from BIGINT,
    epoch BIGINT,
    label VARBINARY(1024),
    identity VARBINARY(1024),
    vacated_token BIGINT,
    vacated_owner BIGINT,
    vacated_how INT,
    renewed_at BIGINT,
    renewals BIGINT,
    mark BIGINT NOT NULL DEFAULT 0,
    window_after BIGINT,
    holds BIGINT NOT NULL DEFAULT 0,
    told TINYINT NOT NULL DEFAULT 0,
    PRIMARY KEY (pool, slot),
    UNIQUE KEY lease_slot_asker (pool, asker),
    KEY lease_slot_free (pool, free_from, slot),
    KEY lease_slot_identity (pool, identity, free_from, down)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Gives the pool, whose row is locked, its size, and rows for the slots that it has not had before.
DROP PROCEDURE IF EXISTS lease_size_pool_1
//
CREATE PROCEDURE lease_size_pool_1(p_pool VARBINARY(255), p_size INT) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE there INT;
    SELECT COALESCE(MAX(t.slot) + 1, 0) INTO there FROM lease_slot AS t WHERE t.pool = p_pool;
    UPDATE lease_pool SET size = p_size WHERE pool = p_pool;
    IF there < p_size THEN
        INSERT INTO lease_slot (pool, slot, down)
        SELECT p_pool, a.n + b.n + c.n + d.n, -(a.n + b.n + c.n + d.n)
        FROM ({digits}) AS a, (SELECT n * 16 AS n FROM ({digits}) AS sixteens) AS b,
            (SELECT n * 256 AS n FROM ({digits}) AS more) AS c, (SELECT n * 4096 AS n FROM ({digits}) AS most) AS d
        WHERE b.n < p_size AND c.n < p_size AND d.n < p_size
            AND a.n + b.n + c.n + d.n >= there AND a.n + b.n + c.n + d.n < p_size
        ORDER BY a.n + b.n + c.n + d.n;
    END IF;
END
//
-- `slot` is NULL where none was granted. Codes beside those of lease_acquire_1: 'busy', 'no slot', 'no such slot', 'pool
-- size'.
DROP PROCEDURE IF EXISTS lease_claim_slot_1
//
CREATE PROCEDURE lease_claim_slot_1(
    p_pool VARBINARY(255), p_size INT, p_first INT, p_last INT, p_owner BIGINT, p_ttl BIGINT, p_attempt BIGINT,
    p_epoch BIGINT, p_cool_down BIGINT, p_label VARBINARY(1024), p_identity VARBINARY(1024), p_exclusive BOOLEAN,
    p_gone_slot INT, p_gone_token BIGINT, p_id_time BOOLEAN, p_again BOOLEAN, p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {slot_row}
    {state}
    -- Whether the slot in `r_slot` is the one that is granted: its owner's own, or one that was found.
    DECLARE taken, same, withdrawn, possible BOOLEAN DEFAULT FALSE;
    DECLARE own, last_slot, pool_size, granted INT;
    DECLARE ends, rested, early, reserved, begins, o_after, o_until, next_own, next_other, believed BIGINT;
    {undone}
    SET last_slot = LEAST(p_last, p_size - 1);
    START TRANSACTION;
    SELECT p.size INTO pool_size FROM lease_pool AS p WHERE p.pool = p_pool;
    IF pool_size > 0 THEN
        SELECT p.size INTO pool_size FROM lease_pool AS p WHERE p.pool = p_pool LOCK IN SHARE MODE;
    ELSE
        -- Of those who make a pool at once one does; the others wait for it here.
        INSERT INTO lease_pool (pool, size) VALUES (p_pool, 0) ON DUPLICATE KEY UPDATE pool = p_pool;
        SELECT p.size INTO pool_size FROM lease_pool AS p WHERE p.pool = p_pool FOR UPDATE;
    END IF;
    SELECT {slot_columns} FROM lease_slot AS t FORCE INDEX (lease_slot_asker)
    WHERE t.pool = p_pool AND t.asker = p_owner FOR UPDATE;
    SET own = r_slot, p_name = CONCAT(p_pool, '#', r_slot);
    {look}
    SELECT COUNT(*) INTO withdrawn FROM lease_withdrawn AS w WHERE w.name = CONCAT(p_pool, '#') AND w.owner = p_owner;
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF p_epoch <> s_epoch THEN
        SET code = 'new epoch', a_believed = p_epoch;
    ELSEIF withdrawn THEN
        SET code = 'withdrawn';
    ELSEIF p_attempt <= r_attempt THEN
        -- A doubled or delayed request: it is told what its owner already has, or that it is too late.
        IF r_token IS NULL OR r_epoch <> s_epoch THEN
            SET code = 'answered before';
        ELSEIF seen < r_expires_at THEN
            SET code = 'granted', a_token = r_token, a_remaining = r_expires_at - seen, granted = r_slot,
                o_after = r_window_after, o_until = r_mark;
        ELSE
            SET code = 'run out';
            {slot_expired}
        END IF;
    ELSEIF pool_size > 0 AND p_size > pool_size THEN
        SET code = 'pool size';
    ELSEIF p_ttl <= 0 THEN
        SET code = 'invalid ttl';
    ELSEIF r_token IS NOT NULL AND seen < r_expires_at THEN
        SET taken = p_again AND r_slot BETWEEN p_first AND last_slot, same = TRUE;
        IF NOT taken THEN
            SET code = 'occupied';
        END IF;
    ELSEIF p_first > last_slot THEN
        SET code = 'no such slot';
    ELSEIF p_id_time AND wall + p_ttl <= s_stamps_above THEN
        SET code = 'no slot';
    ELSEIF pool_size = 0 AND wall < s_grants_from THEN
        SET code = 'held back', a_remaining = s_grants_from - wall;
    ELSEIF pool_size = 0 AND p_size > 1024 THEN
        -- To write so many rows may take longer than the lease would last: they are kept, and the claim is asked again.
        CALL lease_size_pool_1(p_pool, p_size);
        SET code = 'busy', wrote = TRUE;
    ELSE
        IF pool_size = 0 THEN
            CALL lease_size_pool_1(p_pool, p_size);
        END IF;
        SET early = wall, ends = IF(p_id_time, wall + p_ttl, NULL), rested = wall - p_cool_down, r_slot = NULL;
        IF p_identity IS NOT NULL THEN
            -- A slot that is taken over is waited for: its holder may be renewing it.
            IF p_exclusive THEN
                SELECT {slot_columns} FROM lease_slot AS t FORCE INDEX (lease_slot_identity)
                WHERE t.pool = p_pool AND t.identity = p_identity AND t.free_from > early AND t.token IS NOT NULL AND {able}
                ORDER BY t.free_from DESC, t.down DESC LIMIT 1 FOR UPDATE;
            ELSEIF p_gone_slot IS NOT NULL THEN
                SELECT {slot_columns} FROM lease_slot AS t
                WHERE t.pool = p_pool AND t.slot = p_gone_slot AND t.token = p_gone_token AND t.identity = p_identity
                    AND t.free_from > early AND {able}
                FOR UPDATE;
            END IF;
            -- The one that this identity left last.
            IF r_slot IS NULL THEN
                SELECT {slot_columns} FROM lease_slot AS t FORCE INDEX (lease_slot_identity)
                WHERE t.pool = p_pool AND t.identity = p_identity AND t.free_from <= early AND {able}
                ORDER BY t.free_from DESC, t.down DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
            END IF;
        END IF;
        IF r_slot IS NULL THEN
            SELECT {slot_columns} FROM lease_slot AS t FORCE INDEX (lease_slot_free)
            WHERE t.pool = p_pool AND t.free_from IS NULL AND {able}
            ORDER BY t.slot LIMIT 1 FOR UPDATE SKIP LOCKED;
        END IF;
        IF r_slot IS NULL THEN
            SELECT {slot_columns} FROM lease_slot AS t FORCE INDEX (lease_slot_free)
            WHERE t.pool = p_pool AND t.free_from <= rested AND {able}
            ORDER BY t.free_from, t.slot LIMIT 1 FOR UPDATE SKIP LOCKED;
        END IF;
        SET taken = r_slot IS NOT NULL, same = COALESCE(r_slot = own, FALSE);
        IF NOT taken THEN
            -- As of now, and not of the claim's beginning: one slot that was left since then, and another that was taken, would
            -- together look like a pool that was full, which at no instant it was. So one statement reads them all, and the
            -- clock is read behind it. A statement of its own: inside an IF, a look waits for locks.
            SELECT
                EXISTS (
                    SELECT 1 FROM lease_slot AS t
                    WHERE t.pool = p_pool AND t.identity = p_identity AND t.token IS NOT NULL AND {able_by_now}
                    AND (p_exclusive OR (t.slot = p_gone_slot AND t.token = p_gone_token))),
                (SELECT COALESCE(t.free_from, 0) FROM lease_slot AS t FORCE INDEX (lease_slot_identity)
                WHERE t.pool = p_pool AND t.identity = p_identity AND {able_by_now}
                ORDER BY t.free_from LIMIT 1),
                (SELECT COALESCE(t.free_from, 0) + p_cool_down FROM lease_slot AS t FORCE INDEX (lease_slot_free)
                WHERE t.pool = p_pool AND (p_identity IS NULL OR NOT t.identity <=> p_identity) AND {able_by_now}
                ORDER BY t.free_from LIMIT 1)
            INTO possible, next_own, next_other;
            SET rested = {clock};
            IF possible OR next_own <= rested OR next_other <= rested THEN
                SET code = 'busy';
            ELSE
                SET code = 'no slot',
                    a_remaining = LEAST(COALESCE(next_own, next_other), COALESCE(next_other, next_own)) - rested;
                SELECT EXISTS (
                    SELECT 1 FROM lease_slot AS t
                    WHERE t.pool = p_pool AND t.asker = p_owner AND NOT t.slot <=> own
                ) INTO possible;
                IF possible THEN
                    -- A double of this very claim has taken the last one meanwhile: asked again, it is found.
                    SET code = 'busy', a_remaining = NULL;
                END IF;
            END IF;
        END IF;
    END IF;
    IF taken THEN
        SET p_name = CONCAT(p_pool, '#', r_slot);
        -- A slot that is taken over may have been waited for.
        SET believed = s_epoch;
        {look}
        SET wall = GREATEST(wall, COALESCE(early, wall)), seen = GREATEST(seen, wall);
        {slot_last}
        IF s_epoch <> believed OR NOT s_here THEN
            -- It waited for the opening of another epoch. Asked again, it is told.
            SET code = 'busy', a_token = NULL;
        ELSEIF a_token = 9223372036854775807 THEN
            SET code = 'exhausted';
        ELSEIF seen < s_grants_from THEN
            SET code = 'held back', a_remaining = s_grants_from - seen;
        ELSE
            SET code = 'granted', a_token = a_token + 1, a_remaining = p_ttl, granted = r_slot, wrote = TRUE,
                reserved = GREATEST(r_mark, s_stamps_above);
            IF p_again AND same AND r_token IS NOT NULL AND seen < r_expires_at AND r_epoch = s_epoch THEN
                -- Its owner goes on in the window that it has.
                SET begins = r_window_after;
            END IF;
            IF p_id_time THEN
                SET begins = COALESCE(begins, reserved), reserved = GREATEST(reserved, wall + p_ttl), o_after = begins,
                    o_until = reserved;
            END IF;
            IF r_token IS NOT NULL THEN
                SET h_how = IF(seen < r_expires_at, 5, 2), h_ended = LEAST(seen, r_expires_at);
            END IF;
            IF own <> r_slot THEN
                -- Its owner asks through another slot from now on.
                UPDATE lease_slot SET asker = NULL, attempt = NULL WHERE pool = p_pool AND slot = own;
            END IF;
            UPDATE lease_slot SET
                last_issued = a_token, observed = seen, asker = p_owner, attempt = p_attempt, owner = p_owner,
                token = a_token, granted_at = seen, free_from = seen + p_ttl, epoch = s_epoch, label = p_label,
                identity = p_identity, renewed_at = seen, renewals = 0, mark = reserved, window_after = begins,
                holds = holds + 1
            WHERE pool = p_pool AND slot = r_slot;
        END IF;
    END IF;
    {remember}
    IF code = 'no slot' AND NOT (@@log_bin AND @@sync_binlog = 1) THEN
        -- What is told of has to be on the disk (see `end`), and is in rows that others may be deciding on: one that comes and
        -- goes will do.
        SET wrote = TRUE;
        INSERT INTO lease_withdrawn VALUES (CONCAT(p_pool, '#'), p_owner, wall);
        DELETE FROM lease_withdrawn WHERE name = CONCAT(p_pool, '#') AND owner = p_owner;
    END IF;
    {slot_end}
    SELECT code, s_epoch AS epoch, a_token AS token, a_remaining AS remaining, a_believed AS believed, granted AS slot,
        pool_size AS size, wall, o_after AS window_after, o_until AS window_until;
END
//
DROP PROCEDURE IF EXISTS lease_renew_slot_1
//
CREATE PROCEDURE lease_renew_slot_1(
    p_pool VARBINARY(255), p_slot INT, p_owner BIGINT, p_token BIGINT, p_ttl BIGINT, p_epoch BIGINT, p_id_time BOOLEAN,
    p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {slot_row}
    {state}
    DECLARE reserved, begins, o_after, o_until BIGINT;
    {undone}
    START TRANSACTION;
    {slot_lock}
    {look}
    {usable}
    IF code IS NOT NULL THEN
        SET wrote = FALSE;
    ELSEIF p_ttl <= 0 THEN
        SET code = 'invalid ttl';
    ELSEIF r_token IS NULL THEN
        SET code = 'vacant';
    ELSEIF r_owner <> p_owner THEN
        SET code = 'wrong owner';
    ELSEIF r_token <> p_token THEN
        SET code = 'stale token';
    ELSEIF seen >= r_expires_at THEN
        SET code = 'expired';
        {slot_expired}
    ELSE
        SET code = 'renewed', wrote = TRUE, a_token = p_token, a_remaining = GREATEST(p_ttl, r_expires_at - seen),
            reserved = r_mark, begins = r_window_after;
        IF p_id_time THEN
            SET begins = COALESCE(begins, GREATEST(r_mark, s_stamps_above)),
                reserved = GREATEST(r_mark, s_stamps_above, wall + p_ttl), o_after = begins, o_until = reserved;
        END IF;
        UPDATE lease_slot SET
            observed = seen, free_from = seen + a_remaining, renewed_at = seen, renewals = renewals + 1, mark = reserved,
            window_after = begins
        WHERE pool = p_pool AND slot = p_slot;
    END IF;
    {remember}
    {slot_end}
    SELECT code, s_epoch AS epoch, seen, a_token AS token, a_remaining AS remaining, a_believed AS believed,
        a_rewound AS rewound, r_token AS held_token, r_owner AS held_owner, r_granted_at AS granted_at,
        r_expires_at AS expires_at, r_retained AS retained, r_label AS label, r_identity AS identity,
        r_vacated_token AS vacated_token, r_vacated_owner AS vacated_owner, r_vacated_how AS vacated_how,
        p_slot AS slot, wall, o_after AS window_after, o_until AS window_until;
END
//
DROP PROCEDURE IF EXISTS lease_release_slot_1
//
CREATE PROCEDURE lease_release_slot_1(
    p_pool VARBINARY(255), p_slot INT, p_owner BIGINT, p_token BIGINT, p_epoch BIGINT, p_last_used BIGINT, p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {slot_row}
    {state}
    {undone}
    START TRANSACTION;
    {slot_lock}
    {look}
    {usable}
    IF code IS NOT NULL THEN
        SET wrote = FALSE;
    ELSEIF r_vacated_token = p_token AND r_vacated_owner = p_owner AND r_vacated_how = 1 THEN
        SET code = 'already released';
    ELSEIF r_token IS NULL THEN
        SET code = 'vacant';
    ELSEIF r_owner <> p_owner THEN
        SET code = 'wrong owner';
    ELSEIF r_token <> p_token THEN
        SET code = 'stale token';
    ELSEIF seen >= r_expires_at THEN
        SET code = 'expired';
        {slot_expired}
    ELSE
        SET code = 'released', wrote = TRUE, h_how = 1, h_ended = seen;
        UPDATE lease_slot SET
            observed = seen, token = NULL, free_from = seen, label = NULL, window_after = NULL,
            -- What was used is used, whatever had been reserved; what others had before is not given back.
            mark = IF(p_last_used IS NULL, r_mark, GREATEST(p_last_used, COALESCE(r_window_after, r_mark))),
            vacated_token = p_token, vacated_owner = p_owner, vacated_how = 1
        WHERE pool = p_pool AND slot = p_slot;
    END IF;
    {remember}
    {slot_end}
    {answer}
END
//
DROP PROCEDURE IF EXISTS lease_withdraw_slot_1
//
CREATE PROCEDURE lease_withdraw_slot_1(p_pool VARBINARY(255), p_owner BIGINT, p_keep INT)
{invoker} MODIFIES SQL DATA
BEGIN
    {slot_row}
    {state}
    DECLARE pool_size INT;
    {undone}
    START TRANSACTION;
    -- A claim that it is to take away is through by now, or comes when this is committed.
    INSERT INTO lease_pool (pool, size) VALUES (p_pool, 0) ON DUPLICATE KEY UPDATE pool = p_pool;
    SELECT p.size INTO pool_size FROM lease_pool AS p WHERE p.pool = p_pool FOR UPDATE;
    SELECT {slot_columns} FROM lease_slot AS t FORCE INDEX (lease_slot_asker)
    WHERE t.pool = p_pool AND t.asker = p_owner FOR UPDATE;
    SET p_name = CONCAT(p_pool, '#', r_slot);
    {look}
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF r_token IS NOT NULL AND seen < r_expires_at THEN
        SET code = 'released', h_how = 4, h_ended = seen;
        UPDATE lease_slot SET
            observed = seen, token = NULL, free_from = seen, label = NULL, window_after = NULL, vacated_token = r_token,
            vacated_owner = p_owner, vacated_how = 3
        WHERE pool = p_pool AND slot = r_slot;
    ELSEIF r_vacated_owner = p_owner AND r_vacated_how <> 2 AND r_slot < pool_size THEN
        SET code = 'already released';
    ELSE
        SET code = 'vacant';
    END IF;
    IF code <> 'lost' THEN
        SET wrote = TRUE;
        INSERT INTO lease_withdrawn VALUES (CONCAT(p_pool, '#'), p_owner, wall) ON DUPLICATE KEY UPDATE at = wall;
    END IF;
    {remember}
    {slot_end}
    {answer}
END
//
DROP PROCEDURE IF EXISTS lease_revoke_slot_1
//
CREATE PROCEDURE lease_revoke_slot_1(
    p_pool VARBINARY(255), p_slot INT, p_expect BIGINT, p_reason VARBINARY(1024), p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {slot_row}
    {state}
    {undone}
    START TRANSACTION;
    {slot_lock}
    {look}
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF r_slot IS NULL OR (p_expect IS NOT NULL AND r_token IS NULL) THEN
        SET code = 'vacant';
    ELSEIF p_expect <> r_token THEN
        SET code = 'stale token';
    ELSE
        {slot_last}
        SET wrote = TRUE, h_reason = p_reason;
        -- The lease is broken also where there is no token left to burn.
        IF a_token = 9223372036854775807 THEN
            SET code = 'exhausted';
        ELSE
            SET code = 'burnt', a_token = a_token + 1;
        END IF;
        IF r_token IS NOT NULL THEN
            IF seen < r_expires_at THEN
                SET h_how = 3, h_ended = seen;
            ELSE
                SET h_how = 2, h_ended = r_expires_at, h_reason = NULL;
            END IF;
        END IF;
        IF h_how <> 3 AND p_keep > 0 AND code = 'burnt' THEN
            INSERT INTO lease_history VALUES (p_name, a_token, 0, NULL, NULL, wall, wall, 0, wall, 3, 0, p_reason)
            ON DUPLICATE KEY UPDATE name = p_name;
        END IF;
        -- It stays closed until the lease would have ended: its holder may not have heard of it.
        UPDATE lease_slot SET
            last_issued = a_token, observed = seen, token = NULL, label = NULL, window_after = NULL, holds = holds + 1,
            vacated_token = COALESCE(r_token, vacated_token), vacated_owner = IF(r_token IS NULL, vacated_owner, r_owner),
            vacated_how = IF(r_token IS NULL, vacated_how, 2)
        WHERE pool = p_pool AND slot = p_slot;
    END IF;
    {remember}
    {slot_end}
    {answer}
END
//
-- `slot` is NULL where the pool has its size now; else it is the highest one that is in the way, for so long.
DROP PROCEDURE IF EXISTS lease_resize_pool_1
//
CREATE PROCEDURE lease_resize_pool_1(p_pool VARBINARY(255), p_size INT) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE pool_size, in_use INT;
    DECLARE wall, remaining BIGINT;
    {undone}
    START TRANSACTION;
    INSERT INTO lease_pool (pool, size) VALUES (p_pool, 0) ON DUPLICATE KEY UPDATE pool = p_pool;
    SELECT p.size INTO pool_size FROM lease_pool AS p WHERE p.pool = p_pool FOR UPDATE;
    SET wall = {clock};
    SELECT t.slot, t.free_from - GREATEST(wall, t.observed) INTO in_use, remaining FROM lease_slot AS t
    WHERE t.pool = p_pool AND t.slot >= p_size AND t.free_from > GREATEST(wall, t.observed)
    ORDER BY t.slot DESC LIMIT 1 FOR UPDATE;
    IF in_use IS NULL THEN
        CALL lease_size_pool_1(p_pool, p_size);
        COMMIT;
    ELSE
        ROLLBACK;
    END IF;
    SELECT in_use AS slot, remaining;
END
//
DROP PROCEDURE IF EXISTS lease_room_1
//
CREATE PROCEDURE lease_room_1(p_pool VARBINARY(255), p_first INT, p_end INT, p_cool_down BIGINT)
    {invoker} READS SQL DATA
BEGIN
    DECLARE rested BIGINT;
    SET rested = {clock} - p_cool_down;
    SELECT p.size, (SELECT COUNT(*) FROM lease_slot AS t WHERE t.pool = p.pool AND t.slot >= p_first
        AND t.slot < LEAST(p.size, p_end) AND t.free_from > rested) AS taken
    FROM lease_store AS s LEFT JOIN lease_pool AS p ON p.pool = p_pool WHERE s.id = 1;
END
//
DROP PROCEDURE IF EXISTS lease_slots_1
//
CREATE PROCEDURE lease_slots_1(p_pool VARBINARY(255)) {invoker} READS SQL DATA
BEGIN
    SELECT s.epoch, {clock} AS wall, p.size, t.slot, t.last_issued, t.observed, t.token, t.owner, t.granted_at, t.free_from,
        t.label, t.identity, t.mark
    FROM lease_store AS s LEFT JOIN lease_pool AS p ON p.pool = p_pool
        LEFT JOIN lease_slot AS t ON t.pool = p.pool AND t.slot < p.size AND t.last_issued > 0
    WHERE s.id = 1 ORDER BY t.slot;
END
//
