-- The decisions. Each is the core's, made on one version of the resource's row, in this order: lock the row, read what
-- holds for the store and the clock in a statement of its own (which is how a clock that stands still in a statement is
-- read after the wait), decide, write, commit, answer. A name without a row has nothing to lock, so that whoever may have
-- to write it makes an empty row first.
--
-- The number at the end of a name is the version of its meaning: a later program brings others beside them. A routine keeps
-- the sql_mode that it was created under, whatever its caller has.

DROP PROCEDURE IF EXISTS lease_acquire_1
//
CREATE PROCEDURE lease_acquire_1(
    p_name VARBINARY(255), p_owner BIGINT, p_ttl BIGINT, p_attempt BIGINT, p_epoch BIGINT, p_label VARBINARY(1024),
    p_identity VARBINARY(1024), p_once VARBINARY(1024), p_again BOOLEAN, p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {row}
    {state}
    DECLARE withdrawn BOOLEAN DEFAULT FALSE;
    DECLARE e_token, e_owner, e_at BIGINT;
    DECLARE e_label VARBINARY(1024);
    {undone}
    START TRANSACTION;
    {lock_or_make}
    {look}
    IF p_once IS NOT NULL THEN
        SELECT d.token, d.owner, d.label, d.at INTO e_token, e_owner, e_label, e_at
        FROM lease_done AS d WHERE d.name = p_name AND d.once = p_once;
    END IF;
    -- To count costs a third of what EXISTS does.
    SELECT COUNT(*) INTO withdrawn FROM lease_withdrawn AS w WHERE w.name = p_name AND w.owner = p_owner;
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF p_epoch <> s_epoch THEN
        SET code = 'new epoch', a_believed = p_epoch;
    ELSEIF e_token IS NOT NULL THEN
        SET code = 'done';
    ELSEIF withdrawn THEN
        SET code = 'withdrawn';
    ELSEIF r_owner = p_owner AND p_attempt <= r_attempt THEN
        -- A doubled or delayed request: it is told what its owner already has, or that it is too late.
        IF r_token IS NULL OR r_epoch <> s_epoch OR r_retained THEN
            SET code = 'answered before';
        ELSEIF seen < r_expires_at THEN
            SET code = 'granted', a_token = r_token, a_remaining = r_expires_at - seen;
        ELSE
            SET code = 'run out';
            {expired}
        END IF;
    ELSEIF p_ttl <= 0 THEN
        SET code = 'invalid ttl';
    ELSEIF r_token IS NOT NULL AND seen < r_expires_at AND NOT (p_again AND r_owner = p_owner AND NOT r_retained) THEN
        SET code = 'occupied';
    ELSE
        {last}
        IF a_token = 9223372036854775807 THEN
            SET code = 'exhausted';
        ELSEIF seen < s_grants_from THEN
            SET code = 'held back', a_remaining = s_grants_from - seen;
        ELSE
            SET code = 'granted', a_token = a_token + 1, a_remaining = p_ttl, wrote = TRUE;
            UPDATE lease_row SET
                last_issued = a_token, observed = seen, owner = p_owner, attempt = p_attempt, token = a_token,
                granted_at = seen, expires_at = seen + p_ttl, epoch = s_epoch, retained = FALSE, label = p_label,
                identity = p_identity, renewed_at = seen, renewals = 0, holds = holds + 1
            WHERE name = p_name;
            IF r_token IS NOT NULL THEN
                SET h_how = IF(seen < r_expires_at, 5, 2), h_ended = LEAST(seen, r_expires_at);
            END IF;
        END IF;
    END IF;
    {remember}
    {end}
    IF code = 'granted' THEN
        SELECT code, s_epoch AS epoch, a_token AS token, a_remaining AS remaining;
    ELSE
        SELECT code, s_epoch AS epoch, seen, a_token AS token, a_remaining AS remaining, a_believed AS believed,
            r_token AS held_token, r_owner AS held_owner, r_granted_at AS granted_at, r_expires_at AS expires_at,
            r_retained AS retained, r_label AS label, r_identity AS identity, r_vacated_token AS vacated_token,
            r_vacated_owner AS vacated_owner, r_vacated_how AS vacated_how,
            e_token AS end_token, e_owner AS end_owner, e_label AS end_label, e_at AS end_at;
    END IF;
END
//
DROP PROCEDURE IF EXISTS lease_renew_1
//
CREATE PROCEDURE lease_renew_1(
    p_name VARBINARY(255), p_owner BIGINT, p_token BIGINT, p_ttl BIGINT, p_epoch BIGINT, p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {row}
    {state}
    {undone}
    START TRANSACTION;
    {lock}
    {renewing}
END
//
-- The same for whoever cannot wait: what somebody else has locked is told as `locked`. (NOWAIT is not for MariaDB's procedures.)
DROP PROCEDURE IF EXISTS lease_renew_now_1
//
CREATE PROCEDURE lease_renew_now_1(
    p_name VARBINARY(255), p_owner BIGINT, p_token BIGINT, p_ttl BIGINT, p_epoch BIGINT, p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {row}
    {state}
    DECLARE passed_over BOOLEAN DEFAULT FALSE;
    {undone}
    START TRANSACTION;
    {lock_now}
    IF r_last IS NULL THEN
        SELECT COUNT(*) INTO passed_over FROM lease_row AS t WHERE t.name = p_name;
    END IF;
    IF passed_over THEN
        ROLLBACK;
        SELECT 'locked' AS code, FALSE AS rewound;
    ELSE
        {renewing}
    END IF;
END
//
-- Extends what stands, and passes over the rest: what somebody has locked, which is asked for again, and what has to be
-- refused, which is asked for alone. `p_asked` is an array of [name in hexadecimal, owner, token, ttl, epoch or null] as texts; the answer is a list of
-- place:remaining. All rows are locked before the clock is read; none is waited for, so that two of these never wait for
-- each other.
DROP PROCEDURE IF EXISTS lease_renew_many_1
//
CREATE PROCEDURE lease_renew_many_1(p_asked LONGTEXT CHARACTER SET utf8mb4) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE n, ttl, observed_at, ends_at, wall, s_epoch BIGINT;
    DECLARE s_here BOOLEAN DEFAULT FALSE;
    DECLARE of_name VARBINARY(255);
    DECLARE seen BIGINT;
    DECLARE done BOOLEAN DEFAULT FALSE;
    DECLARE renewed LONGTEXT CHARACTER SET ascii DEFAULT '';
    DECLARE standing CURSOR FOR
        SELECT j.n, j.ttl, t.name, t.observed, t.expires_at
        FROM {asked} STRAIGHT_JOIN lease_row AS t ON t.name = UNHEX(j.name) WHERE {standing}
        FOR UPDATE {of_row} SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
    {undone}
    START TRANSACTION;
    SELECT s.epoch, s.server = {server} INTO s_epoch, s_here FROM lease_store AS s WHERE s.id = 1;
    IF s_epoch IS NULL THEN
        SIGNAL SQLSTATE 'LM002' SET MESSAGE_TEXT = 'the store has no epoch', MYSQL_ERRNO = 45002;
    END IF;
    IF s_here THEN
        OPEN standing;
        SET wall = {clock};
        each_row: LOOP
            FETCH standing INTO n, ttl, of_name, observed_at, ends_at;
            IF done THEN
                LEAVE each_row;
            END IF;
            SET seen = GREATEST(wall, observed_at);
            IF seen < ends_at THEN
                SET ends_at = GREATEST(seen + ttl, ends_at);
                -- A lease may stand there twice: what it was told first is not taken back.
                UPDATE lease_row SET observed = seen, expires_at = GREATEST(expires_at, ends_at), renewed_at = seen,
                    renewals = renewals + 1
                WHERE name = of_name;
                SET renewed = CONCAT(renewed, n, ':', ends_at - seen, ',');
            END IF;
        END LOOP;
        CLOSE standing;
    END IF;
    COMMIT;
    SELECT s_epoch AS epoch, renewed;
END
//
-- Which of the same stand, by what is committed: somebody has locked those that were not renewed. Nothing is locked here.
DROP PROCEDURE IF EXISTS lease_standing_1
//
CREATE PROCEDURE lease_standing_1(p_asked LONGTEXT CHARACTER SET utf8mb4) {invoker} READS SQL DATA
BEGIN
    DECLARE s_epoch BIGINT;
    SELECT s.epoch INTO s_epoch FROM lease_store AS s WHERE s.id = 1 AND s.server = {server};
    SELECT j.n FROM {asked} STRAIGHT_JOIN lease_row AS t ON t.name = UNHEX(j.name)
    WHERE {standing} AND GREATEST({clock}, t.observed) < t.expires_at;
END
//
DROP PROCEDURE IF EXISTS lease_release_1
//
CREATE PROCEDURE lease_release_1(
    p_name VARBINARY(255), p_owner BIGINT, p_token BIGINT, p_epoch BIGINT, p_result INT, p_once VARBINARY(1024),
    p_at_least BIGINT, p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {row}
    {state}
    {undone}
    START TRANSACTION;
    {lock}
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
        {expired}
    ELSE
        SET wrote = TRUE, h_how = 1, h_ended = seen, h_result = p_result;
        IF p_result = 1 THEN
            INSERT INTO lease_good VALUES (p_name, p_token, p_owner, r_label, p_once, wall)
            ON DUPLICATE KEY UPDATE token = p_token, owner = p_owner, label = r_label, once = p_once, at = wall;
            IF p_once IS NOT NULL THEN
                INSERT INTO lease_done VALUES (p_name, p_once, p_token, p_owner, r_label, wall)
                ON DUPLICATE KEY UPDATE name = p_name;
            END IF;
        END IF;
        IF r_granted_at + p_at_least > seen THEN
            -- Nobody else is to have it so soon: the lease runs on, with its work ended.
            SET code = 'retained', a_remaining = r_granted_at + p_at_least - seen;
            UPDATE lease_row SET
                observed = seen, expires_at = r_granted_at + p_at_least, retained = TRUE,
                vacated_token = p_token, vacated_owner = p_owner, vacated_how = 1
            WHERE name = p_name;
        ELSE
            SET code = 'released';
            UPDATE lease_row SET
                observed = seen, token = NULL, retained = FALSE, label = NULL, identity = NULL,
                vacated_token = p_token, vacated_owner = p_owner, vacated_how = 1
            WHERE name = p_name;
        END IF;
    END IF;
    {remember}
    {end}
    {answer}
END
//
-- It locks the name also where that has no row, so that a first grant which it is to take away comes before or after it. The
-- empty row stays: one that waits for it finds it, and sees what was written here. A prune takes it away.
DROP PROCEDURE IF EXISTS lease_withdraw_1
//
CREATE PROCEDURE lease_withdraw_1(p_name VARBINARY(255), p_owner BIGINT, p_keep INT) {invoker} MODIFIES SQL DATA
BEGIN
    {row}
    {state}
    {undone}
    START TRANSACTION;
    {lock_or_make}
    {look}
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF r_token IS NOT NULL AND r_owner = p_owner AND NOT r_retained THEN
        IF seen < r_expires_at THEN
            SET code = 'released', h_how = 4, h_ended = seen;
            UPDATE lease_row SET
                observed = seen, token = NULL, label = NULL, identity = NULL, vacated_token = r_token,
                vacated_owner = p_owner, vacated_how = 3
            WHERE name = p_name;
        ELSE
            SET code = 'expired';
            {expired}
        END IF;
    ELSEIF r_vacated_owner = p_owner AND r_vacated_how <> 2 THEN
        SET code = 'already released';
    ELSEIF r_token IS NOT NULL THEN
        SET code = 'wrong owner';
    ELSE
        SET code = 'vacant';
    END IF;
    IF code <> 'lost' THEN
        SET wrote = TRUE;
        INSERT INTO lease_withdrawn VALUES (p_name, p_owner, wall) ON DUPLICATE KEY UPDATE at = wall;
    END IF;
    {remember}
    {end}
    {answer}
END
//
DROP PROCEDURE IF EXISTS lease_revoke_1
//
CREATE PROCEDURE lease_revoke_1(
    p_name VARBINARY(255), p_expect BIGINT, p_reason VARBINARY(1024), p_keep INT
) {invoker} MODIFIES SQL DATA
BEGIN
    {row}
    {state}
    {undone}
    START TRANSACTION;
    {lock_or_make}
    {look}
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF p_expect IS NOT NULL AND r_token IS NULL THEN
        SET code = 'vacant';
    ELSEIF p_expect <> r_token THEN
        SET code = 'stale token';
    ELSE
        {last}
        SET wrote = TRUE, h_reason = p_reason;
        -- The lease is broken also where there is no token left to burn.
        IF a_token = 9223372036854775807 THEN
            SET code = 'exhausted';
        ELSE
            SET code = 'burnt', a_token = a_token + 1;
        END IF;
        IF r_token IS NOT NULL AND NOT r_retained THEN
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
        UPDATE lease_row SET
            last_issued = a_token, observed = seen, token = NULL, retained = FALSE, label = NULL, identity = NULL,
            holds = holds + 1
        WHERE name = p_name;
        -- The holder of what is held back had released it, and may ask again whether it did.
        IF r_token IS NOT NULL AND NOT r_retained THEN
            UPDATE lease_row SET vacated_token = r_token, vacated_owner = r_owner, vacated_how = 2 WHERE name = p_name;
        END IF;
    END IF;
    {remember}
    {end}
    {answer}
END
//
-- Forgets some of the resources that nobody has held for so long, and history as old; says whether there are more.
DROP PROCEDURE IF EXISTS lease_prune_1
//
CREATE PROCEDURE lease_prune_1(p_older BIGINT, p_at_once INT) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE wall, earlier, last, highest BIGINT;
    DECLARE of_name VARBINARY(255);
    DECLARE resources, history BIGINT DEFAULT 0;
    DECLARE looked BIGINT DEFAULT 0;
    DECLARE done, broken BOOLEAN DEFAULT FALSE;
    DECLARE forgotten CURSOR FOR
        SELECT t.name, t.last_issued FROM lease_row AS t
        WHERE t.observed <= earlier AND (t.token IS NULL OR t.expires_at <= earlier)
        LIMIT p_at_once FOR UPDATE SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
    {undone}
    START TRANSACTION;
    -- Every first grant takes this lock, shared, before it decides, and keeps it to its commit.
    SELECT f.floor INTO highest FROM lease_floor AS f WHERE f.id = 1 FOR UPDATE;
    SET wall = {clock};
    -- The server need not be that old.
    SET earlier = GREATEST(wall - p_older, 0), done = FALSE;
    OPEN forgotten;
    each_row: LOOP
        FETCH forgotten INTO of_name, last;
        IF done THEN
            LEAVE each_row;
        END IF;
        SET looked = looked + 1, highest = GREATEST(highest, last);
        -- A name that was never granted is no resource yet.
        SET resources = resources + (last > 0);
        DELETE FROM lease_row WHERE name = of_name;
    END LOOP;
    CLOSE forgotten;
    UPDATE lease_floor SET floor = highest WHERE id = 1;
    COMMIT;
    BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
            ROLLBACK;
            -- What is forgotten by now has to be told of. Asked again, this alone is left to fail.
            IF looked = 0 THEN
                RESIGNAL;
            END IF;
            SET history = 0, broken = TRUE;
        END;
        START TRANSACTION;
        DELETE FROM lease_history WHERE ends_at <= earlier LIMIT p_at_once;
        SET history = ROW_COUNT();
        DELETE d FROM lease_done AS d LEFT JOIN lease_good AS g ON g.name = d.name AND g.once = d.once
        WHERE d.at <= earlier AND g.name IS NULL;
        -- An owner is drawn for one hold: none asks again after the longest ttl there is.
        DELETE FROM lease_withdrawn WHERE at <= wall - 31536000000000 LIMIT p_at_once;
        COMMIT;
    END;
    SELECT GREATEST(highest, s.floor) INTO highest FROM lease_store AS s WHERE s.id = 1;
    SELECT resources, history, highest AS floor, broken OR looked = p_at_once OR history = p_at_once AS more;
END
//
-- Opens an epoch in place of `p_instead`; where the store is in another one by now, nothing happens. Says which it is in.
DROP PROCEDURE IF EXISTS lease_open_epoch_1
//
CREATE PROCEDURE lease_open_epoch_1(
    p_instead BIGINT, p_epoch BIGINT, p_above BIGINT, p_dead BOOLEAN, p_max_ttl BIGINT
) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE s_epoch, s_floor, pruned, wall, last BIGINT;
    {undone}
    START TRANSACTION;
    SELECT s.epoch, s.floor INTO s_epoch, s_floor FROM lease_store AS s WHERE s.id = 1 FOR UPDATE;
    IF s_epoch IS NULL THEN
        SIGNAL SQLSTATE 'LM002' SET MESSAGE_TEXT = 'the store has no epoch', MYSQL_ERRNO = 45002;
    END IF;
    IF s_epoch = p_instead THEN
        SELECT COALESCE(MAX(t.last_issued), 0) INTO last FROM lease_row AS t;
        SELECT GREATEST(last, COALESCE(MAX(t.last_issued), 0)) INTO last FROM lease_slot AS t;
        SELECT f.floor, {clock} INTO pruned, wall FROM lease_floor AS f WHERE f.id = 1;
        {clock_set}
        SET last = GREATEST(last, s_floor, pruned);
        SET last = IF(last > 9223372036854775807 - 4294967296, 9223372036854775807, last + 4294967296);
        UPDATE lease_store SET
            epoch = p_epoch, floor = GREATEST(last, p_above, wall), grants_from = IF(p_dead, 0, wall + p_max_ttl),
            -- Whatever was granted, its ID time ended at most `p_max_ttl` after the clock of that moment.
            stamps_above = GREATEST(stamps_above, wall + p_max_ttl),
            server = {server}
        WHERE id = 1;
        INSERT INTO lease_history
        SELECT t.name, t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, wall, 6, 0, NULL
        FROM lease_row AS t WHERE t.token IS NOT NULL AND wall < t.expires_at AND NOT t.retained
        ON DUPLICATE KEY UPDATE reason = lease_history.reason;
        INSERT INTO lease_history
        SELECT CONCAT(t.pool, '#', t.slot), t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals,
            wall, 6, 0, NULL
        FROM lease_slot AS t WHERE t.token IS NOT NULL AND wall < t.free_from
        ON DUPLICATE KEY UPDATE reason = lease_history.reason;
        IF p_dead THEN
            UPDATE lease_row SET expires_at = wall WHERE token IS NOT NULL AND wall < expires_at;
            UPDATE lease_slot SET free_from = wall WHERE token IS NOT NULL AND wall < free_from;
        END IF;
        SET s_epoch = p_epoch;
    END IF;
    COMMIT;
    SELECT s_epoch AS epoch;
END
//
-- The server is another one, and has everything that its predecessor answered.
DROP PROCEDURE IF EXISTS lease_trust_1
//
CREATE PROCEDURE lease_trust_1() {invoker} MODIFIES SQL DATA
BEGIN
    UPDATE lease_store SET server = {server} WHERE id = 1;
END
//
-- Who may use the tables, the epoch, and whether the server is the one that the epoch was opened on.
DROP PROCEDURE IF EXISTS lease_epoch_1
//
CREATE PROCEDURE lease_epoch_1() {invoker} READS SQL DATA
BEGIN
    SELECT s.usable_by, s.epoch, s.server = {server} AS here FROM lease_store AS s WHERE s.id = 1;
END
//
DROP PROCEDURE IF EXISTS lease_inspect_1
//
CREATE PROCEDURE lease_inspect_1(p_name VARBINARY(255)) {invoker} READS SQL DATA
BEGIN
    SELECT s.epoch, GREATEST({clock}, COALESCE(t.observed, 0)) AS seen, t.name, t.last_issued, t.token, t.owner, t.granted_at,
        t.expires_at, t.retained, t.label, t.identity, t.vacated_token, t.vacated_owner, t.vacated_how,
        g.token AS end_token, g.owner AS end_owner, g.label AS end_label, g.once AS end_once, g.at AS end_at
    FROM lease_store AS s LEFT JOIN lease_row AS t ON t.name = p_name LEFT JOIN lease_good AS g ON g.name = p_name
    WHERE s.id = 1;
END
//
DROP PROCEDURE IF EXISTS lease_list_1
//
CREATE PROCEDURE lease_list_1(p_from VARBINARY(255), p_beyond VARBINARY(256)) {invoker} READS SQL DATA
BEGIN
    SELECT s.epoch, GREATEST({clock}, t.observed) AS seen, t.name, t.last_issued, t.token, t.owner, t.granted_at,
        t.expires_at, t.retained, t.label, t.identity, t.vacated_token, t.vacated_owner, t.vacated_how,
        g.token AS end_token, g.owner AS end_owner, g.label AS end_label, g.once AS end_once, g.at AS end_at
    FROM lease_store AS s STRAIGHT_JOIN lease_row AS t LEFT JOIN lease_good AS g ON g.name = t.name
    WHERE s.id = 1 AND t.name >= p_from AND (p_beyond IS NULL OR t.name < p_beyond) AND t.last_issued > 0
    ORDER BY t.name;
END
//
DROP PROCEDURE IF EXISTS lease_history_1
//
CREATE PROCEDURE lease_history_1(p_name VARBINARY(255), p_limit BIGINT, p_pool VARBINARY(255), p_slot INT)
{invoker} READS SQL DATA
BEGIN
    SELECT * FROM (
        SELECT h.token, h.owner, h.label, h.identity, h.granted_at, h.renewed_at, h.renewals, h.ends_at, h.outcome, h.result,
            h.reason
        FROM lease_history AS h WHERE h.name = p_name
        UNION ALL
        SELECT t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, t.expires_at,
            IF(GREATEST({clock}, t.observed) < t.expires_at, 0, 2), 0, NULL
        FROM lease_row AS t WHERE t.name = p_name AND t.token IS NOT NULL AND NOT t.retained
            AND NOT EXISTS (SELECT 1 FROM lease_history AS o WHERE o.name = p_name AND o.token = t.token)
        UNION ALL
        SELECT t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, t.free_from,
            IF(GREATEST({clock}, t.observed) < t.free_from, 0, 2), 0, NULL
        FROM lease_slot AS t WHERE t.pool = p_pool AND t.slot = p_slot AND t.token IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM lease_history AS o WHERE o.name = p_name AND o.token = t.token)
    ) AS held ORDER BY held.token DESC LIMIT p_limit;
END
//
-- The strict half of a guard, after the mark: refuses a lease that is not the latest committed grant any more. It looks,
-- and locks nothing, so that it holds up no renewal, grant or revoke.
DROP PROCEDURE IF EXISTS lease_fence_strict_1
//
CREATE PROCEDURE lease_fence_strict_1(
    p_resource VARBINARY(255), p_token BIGINT, p_owner BIGINT, p_epoch BIGINT
) {invoker} READS SQL DATA
BEGIN
    DECLARE here, r_last, r_token, r_owner, r_epoch BIGINT;
    DECLARE r_retained BOOLEAN DEFAULT FALSE;
    DECLARE told VARCHAR(128) CHARACTER SET ascii;
    -- Elsewhere a transaction does not see what was committed since it began.
    IF {isolation} <> 'READ-COMMITTED' THEN
        SIGNAL SQLSTATE 'LF005' SET MYSQL_ERRNO = 45105, MESSAGE_TEXT = 'lease fence: not strict under this isolation';
    END IF;
    SELECT s.epoch, t.last_issued, t.token, t.owner, t.epoch, t.retained
    INTO here, r_last, r_token, r_owner, r_epoch, r_retained
    FROM lease_store AS s LEFT JOIN lease_row AS t ON t.name = p_resource WHERE s.id = 1;
    IF here <> p_epoch OR r_epoch <> here THEN
        SIGNAL SQLSTATE 'LF006' SET MYSQL_ERRNO = 45106, MESSAGE_TEXT = 'lease fence: lost, the epoch is another';
    END IF;
    IF r_token = p_token AND r_owner = p_owner AND NOT r_retained THEN
        SET here = 0;
    ELSEIF r_last > p_token THEN
        SET told = CONCAT('lease fence: stale token, the highest seen is ', r_last);
        SIGNAL SQLSTATE 'LF002' SET MYSQL_ERRNO = 45102, MESSAGE_TEXT = told;
    ELSE
        SIGNAL SQLSTATE 'LF006' SET MYSQL_ERRNO = 45106, MESSAGE_TEXT = 'lease fence: lost, it was given back or revoked';
    END IF;
END
//
-- Whether a strict guard can run here, and whether the store in this database knows the lease as its own.
DROP PROCEDURE IF EXISTS lease_fence_mine_1
//
CREATE PROCEDURE lease_fence_mine_1(
    p_resource VARBINARY(255), p_token BIGINT, p_owner BIGINT, p_epoch BIGINT
) {invoker} READS SQL DATA
BEGIN
    SELECT {isolation} = 'READ-COMMITTED' AS latest, s.epoch = p_epoch
        OR EXISTS (SELECT 1 FROM lease_row AS t WHERE t.name = p_resource
            AND ((t.token = p_token AND t.owner = p_owner) OR (t.vacated_token = p_token AND t.vacated_owner = p_owner)))
        OR EXISTS (SELECT 1 FROM lease_history AS h WHERE h.name = p_resource AND h.token = p_token AND h.owner = p_owner)
        AS mine
    FROM lease_store AS s WHERE s.id = 1;
END
//
