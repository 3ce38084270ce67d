-- The slots of pools. A pool has a row for each of its slots from the beginning, so that a claim finds what it may have in an
-- index and passes over what others have locked. The core's pool says which one it gets.
--
-- Whoever claims holds the table of pools in a mode that no other claim minds; whoever withdraws an owner's claims, or changes
-- a pool's size, holds it alone, and so comes before or after each claim and never into the midst of one.
CREATE TABLE IF NOT EXISTS {schema}.lease_pool (
    pool bytea PRIMARY KEY,
    size integer NOT NULL
);

-- `free_from` is the end of the slot's lease, or, where there is none, since when it counts as free; it is NULL where it was
-- never used. `asker` is the owner whose attempts the slot remembers. `mark`, `window_after`: stamps of ID time. `place` is
-- that of the hold that goes on in its history, which has the name of the pool, `#` and the number.
CREATE TABLE IF NOT EXISTS {schema}.lease_slot (
    pool bytea NOT NULL,
    slot integer NOT NULL,
    last_issued bigint NOT NULL DEFAULT 0,
    observed bigint NOT NULL DEFAULT 0,
    asker bigint,
    attempt bigint,
    owner bigint,
    token bigint,
    granted_at bigint,
    free_from bigint,
    epoch bigint,
    label text,
    identity text COLLATE "C",
    vacated_token bigint,
    vacated_owner bigint,
    vacated_how integer,
    renewed_at bigint,
    renewals bigint,
    mark bigint NOT NULL DEFAULT 0,
    window_after bigint,
    place integer NOT NULL DEFAULT 0,
    PRIMARY KEY (pool, slot)
) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS lease_slot_free ON {schema}.lease_slot (pool, free_from NULLS FIRST, slot);
CREATE INDEX IF NOT EXISTS lease_slot_identity ON {schema}.lease_slot (pool, identity, free_from DESC, slot)
    WHERE identity IS NOT NULL;
-- Two claims of one owner that come at once lock two slots, and neither sees the other's attempt. The second one fails here,
-- is asked again, and finds the first.
CREATE UNIQUE INDEX IF NOT EXISTS lease_slot_asker ON {schema}.lease_slot (pool, asker) WHERE asker IS NOT NULL;

-- How owners that have withdrawn from a pool are remembered among the others.
CREATE OR REPLACE FUNCTION {schema}.lease_withdrawn_as_1(pool bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $lease$
    SELECT pool || '#'::bytea
$lease$;

-- The name that a slot's history has.
CREATE OR REPLACE FUNCTION {schema}.lease_slot_name_1(pool bytea, slot integer) RETURNS bytea LANGUAGE sql IMMUTABLE
AS $lease$
    SELECT pool || '#'::bytea || convert_to(slot::text, 'UTF8')
$lease$;

-- The lease on a slot, for what is said of any lease.
CREATE OR REPLACE FUNCTION {schema}.lease_of_slot_1(t {schema}.lease_slot) RETURNS {schema}.lease_row LANGUAGE plpgsql
AS $lease$
DECLARE
    r {schema}.lease_row;
BEGIN
    r.name := t.pool;
    r.last_issued := t.last_issued;
    r.observed := t.observed;
    r.owner := t.owner;
    r.token := t.token;
    r.granted_at := t.granted_at;
    r.expires_at := t.free_from;
    r.epoch := t.epoch;
    r.retained := false;
    r.label := t.label;
    r.identity := t.identity;
    r.vacated_token := t.vacated_token;
    r.vacated_owner := t.vacated_owner;
    r.vacated_how := t.vacated_how;
    RETURN r;
END $lease$;

-- As lease_remember_1, of the hold on a slot.
CREATE OR REPLACE FUNCTION {schema}.lease_remember_slot_1(
    p_pool bytea, p_slot integer, ended bigint, how integer, why text, keep integer
) RETURNS void LANGUAGE plpgsql AS $lease$
BEGIN
    IF keep > 0 THEN
        INSERT INTO {schema}.lease_history AS h
        SELECT {schema}.lease_slot_name_1(t.pool, t.slot), t.place, t.token, t.owner, t.label, t.identity, t.granted_at,
            t.renewed_at, t.renewals, ended, how, 0, why
        FROM {schema}.lease_slot AS t WHERE t.pool = p_pool AND t.slot = p_slot AND t.token IS NOT NULL
        ON CONFLICT (name, slot) DO UPDATE SET
            token = excluded.token, owner = excluded.owner, label = excluded.label, identity = excluded.identity,
            granted_at = excluded.granted_at, renewed_at = excluded.renewed_at, renewals = excluded.renewals,
            ends_at = excluded.ends_at, outcome = excluded.outcome, result = excluded.result, reason = excluded.reason
        WHERE h.token < excluded.token;
    END IF;
END $lease$;

-- An answer that says that a lease on a slot is over has to stay true.
CREATE OR REPLACE FUNCTION {schema}.lease_expire_slot_1(
    p_pool bytea, p_slot integer, at bigint, ended bigint, keep integer
) RETURNS void LANGUAGE plpgsql AS $lease$
BEGIN
    UPDATE {schema}.lease_slot AS t SET observed = at WHERE t.pool = p_pool AND t.slot = p_slot;
    PERFORM {schema}.lease_remember_slot_1(p_pool, p_slot, ended, 2, NULL, keep);
END $lease$;

-- Finds and locks the slot that a claim gets: the first that it may have, past those that others are deciding on. No row
-- where there is none. A slot that is taken over is waited for: its holder may be renewing it.
--
-- `until` is the end of the ID time that is asked for, NULL where none is; `rested` is since when a slot must have been free
-- for another identity than its last.
CREATE OR REPLACE FUNCTION {schema}.lease_find_slot_1(
    p_pool bytea, p_first integer, p_last integer, p_identity text, p_exclusive boolean, p_gone_slot integer,
    p_gone_token bigint, now bigint, rested bigint, until bigint
) RETURNS SETOF {schema}.lease_slot LANGUAGE plpgsql AS $lease$
BEGIN
    IF p_identity IS NOT NULL THEN
        IF p_exclusive THEN
            RETURN QUERY SELECT t.* FROM {schema}.lease_slot AS t
            WHERE t.pool = p_pool AND t.identity = p_identity AND t.free_from > now AND t.token IS NOT NULL
                AND {able}
            ORDER BY t.free_from DESC, t.slot LIMIT 1 FOR UPDATE;
        ELSIF p_gone_slot IS NOT NULL THEN
            RETURN QUERY SELECT t.* FROM {schema}.lease_slot AS t
            WHERE t.pool = p_pool AND t.slot = p_gone_slot AND t.token = p_gone_token AND t.identity = p_identity
                AND t.free_from > now AND {able}
            FOR UPDATE;
        END IF;
        IF FOUND THEN
            RETURN;
        END IF;
        -- The one that this identity left last.
        RETURN QUERY SELECT t.* FROM {schema}.lease_slot AS t
        WHERE t.pool = p_pool AND t.identity = p_identity AND t.free_from <= now
            AND {able}
        ORDER BY t.free_from DESC, t.slot LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT t.* FROM {schema}.lease_slot AS t
    WHERE t.pool = p_pool AND t.free_from IS NULL
        AND {able}
    ORDER BY t.slot LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT t.* FROM {schema}.lease_slot AS t
    WHERE t.pool = p_pool AND t.free_from <= rested
        AND {able}
    ORDER BY t.free_from NULLS FIRST, t.slot LIMIT 1 FOR UPDATE SKIP LOCKED;
END $lease$;

-- Why there was no slot: 'busy' where there is one that could be had, else when the first comes free. It is looked at as of
-- now, and not as of the claim's beginning: one slot that was left since then, and another that was taken, would together look
-- like a pool that was full, which at no instant it was. So one statement reads them all, and the clock is read behind it.
CREATE OR REPLACE FUNCTION {schema}.lease_no_slot_1(
    p_pool bytea, p_first integer, p_last integer, p_identity text, p_exclusive boolean, p_gone_slot integer,
    p_gone_token bigint, p_cool_down bigint, p_ttl bigint, p_id_time boolean, OUT code text, OUT next_chance bigint
) LANGUAGE plpgsql AS $lease$
DECLARE
    held_by_itself boolean;
    own bigint;
    other bigint;
    now bigint;
BEGIN
    SELECT
        EXISTS (
            SELECT FROM {schema}.lease_slot AS t
            WHERE t.pool = p_pool AND t.identity = p_identity AND t.token IS NOT NULL AND {able_by_now}
                AND (p_exclusive OR t.slot = p_gone_slot AND t.token = p_gone_token)),
        (SELECT coalesce(t.free_from, 0) FROM {schema}.lease_slot AS t
        WHERE t.pool = p_pool AND t.identity = p_identity AND {able_by_now}
        ORDER BY t.free_from NULLS FIRST LIMIT 1),
        (SELECT coalesce(t.free_from, 0) + p_cool_down FROM {schema}.lease_slot AS t
        WHERE t.pool = p_pool AND (p_identity IS NULL OR t.identity IS DISTINCT FROM p_identity) AND {able_by_now}
        ORDER BY t.free_from NULLS FIRST LIMIT 1)
    INTO held_by_itself, own, other;
    now := {schema}.lease_clock_1();
    IF held_by_itself OR own <= now OR other <= now THEN
        code := 'busy';
    ELSE
        code := 'no slot';
        next_chance := least(own, other) - now;
    END IF;
END $lease$;

-- Gives the pool its size, and rows for the slots that it has not had before.
CREATE OR REPLACE FUNCTION {schema}.lease_size_pool_1(p_pool bytea, p_size integer) RETURNS void LANGUAGE plpgsql
AS $lease$
BEGIN
    INSERT INTO {schema}.lease_pool AS p (pool, size) VALUES (p_pool, p_size)
    ON CONFLICT (pool) DO UPDATE SET size = excluded.size;
    INSERT INTO {schema}.lease_slot AS t (pool, slot)
    SELECT p_pool, n FROM generate_series(
        coalesce((SELECT max(o.slot) + 1 FROM {schema}.lease_slot AS o WHERE o.pool = p_pool), 0), p_size - 1) AS n;
END $lease$;

-- `o_slot` is NULL where none was granted. Codes beside those of lease_acquire_1: 'busy', 'no slot', 'no such slot', 'pool
-- size'.
CREATE OR REPLACE FUNCTION {schema}.lease_claim_slot_1(
    p_pool bytea, p_size integer, p_first integer, p_last integer, p_owner bigint, p_ttl bigint, p_attempt bigint,
    p_epoch bigint, p_cool_down bigint, p_label text, p_identity text, p_exclusive boolean, p_gone_slot integer,
    p_gone_token bigint, p_id_time boolean, p_again boolean, p_keep integer, p_wait integer
) RETURNS TABLE (
    o_slot integer, o_size integer, o_wall bigint, o_after bigint, o_until bigint, o_next bigint,
    answer {schema}.lease_answer_1
) LANGUAGE plpgsql AS $lease$
DECLARE
    r {schema}.lease_slot;
    s {schema}.lease_store;
    wrote boolean := false;
    -- Whether `r` is the slot that is granted: its owner's own, or one that was found.
    taken boolean := false;
    same boolean := false;
    own integer;
    last_slot integer := least(p_last, p_size - 1);
    at bigint;
    last bigint;
    reserved bigint;
    begins bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    LOCK TABLE {schema}.lease_pool IN ROW SHARE MODE;
    SELECT p.size INTO o_size FROM {schema}.lease_pool AS p WHERE p.pool = p_pool;
    SELECT t.* INTO r FROM {schema}.lease_slot AS t WHERE t.pool = p_pool AND t.asker = p_owner FOR UPDATE;
    own := r.slot;
    SELECT t.* INTO STRICT s FROM {schema}.lease_store AS t;
    o_wall := {schema}.lease_clock_1();
    at := greatest(o_wall, r.observed);
    answer.epoch := s.epoch;
    IF s.timeline <> {schema}.lease_timeline_1() THEN
        answer.code := 'lost';
    ELSIF p_epoch <> s.epoch THEN
        answer.code := 'new epoch';
        answer.believed := p_epoch;
    ELSIF EXISTS (
        SELECT FROM {schema}.lease_withdrawn AS w
        WHERE w.name = {schema}.lease_withdrawn_as_1(p_pool) AND w.owner = p_owner)
    THEN
        answer.code := 'withdrawn';
    ELSIF p_attempt <= r.attempt THEN
        -- A doubled or delayed request: it is told what its owner already has, or that it is too late.
        IF r.token IS NULL OR r.epoch <> s.epoch THEN
            answer.code := 'answered before';
        ELSIF at < r.free_from THEN
            answer.code := 'granted';
            answer.token := r.token;
            answer.remaining := r.free_from - at;
            o_slot := r.slot;
            o_after := r.window_after;
            o_until := r.mark;
        ELSE
            answer.code := 'run out';
            wrote := true;
            PERFORM {schema}.lease_expire_slot_1(p_pool, r.slot, at, r.free_from, p_keep);
        END IF;
    ELSIF p_size > o_size THEN
        answer.code := 'pool size';
    ELSIF p_ttl <= 0 THEN
        answer.code := 'invalid ttl';
    ELSIF r.token IS NOT NULL AND at < r.free_from THEN
        taken := p_again AND r.slot BETWEEN p_first AND last_slot;
        same := taken;
        IF NOT taken THEN
            answer.code := 'occupied';
        END IF;
    ELSIF p_first > last_slot THEN
        answer.code := 'no such slot';
    ELSIF p_id_time AND o_wall + p_ttl <= s.stamps_above THEN
        answer.code := 'no slot';
    ELSIF o_size IS NULL AND o_wall < s.grants_from THEN
        answer.code := 'held back';
        answer.remaining := s.grants_from - o_wall;
    ELSE
        IF o_size IS NULL THEN
            -- Of those who make a pool at once one does; the others wait for it here.
            INSERT INTO {schema}.lease_pool AS p (pool, size) VALUES (p_pool, p_size) ON CONFLICT DO NOTHING;
            IF FOUND THEN
                PERFORM {schema}.lease_size_pool_1(p_pool, p_size);
                wrote := true;
            END IF;
            SELECT p.size INTO STRICT o_size FROM {schema}.lease_pool AS p WHERE p.pool = p_pool;
            o_wall := greatest(o_wall, {schema}.lease_clock_1());
        END IF;
        IF p_size > o_size THEN
            answer.code := 'pool size';
        ELSE
            SELECT f.* INTO r FROM {schema}.lease_find_slot_1(
                p_pool, p_first, last_slot, p_identity, p_exclusive, p_gone_slot, p_gone_token, o_wall,
                o_wall - p_cool_down, CASE WHEN p_id_time THEN o_wall + p_ttl END) AS f;
            taken := FOUND;
            same := r.slot = own;
            IF NOT taken THEN
                SELECT w.code, w.next_chance INTO answer.code, o_next FROM {schema}.lease_no_slot_1(
                    p_pool, p_first, last_slot, p_identity, p_exclusive, p_gone_slot, p_gone_token, p_cool_down, p_ttl,
                    p_id_time) AS w;
                IF answer.code = 'no slot' AND EXISTS (
                    SELECT FROM {schema}.lease_slot AS t
                    WHERE t.pool = p_pool AND t.asker = p_owner AND t.slot IS DISTINCT FROM own)
                THEN
                    -- A double of this very claim has taken the last one meanwhile: asked again, it is found.
                    answer.code := 'busy';
                END IF;
            END IF;
        END IF;
    END IF;
    IF taken THEN
        -- A slot that was taken over may have been waited for.
        o_wall := greatest(o_wall, {schema}.lease_clock_1());
        at := greatest(o_wall, r.observed);
        last := CASE WHEN r.last_issued > 0 THEN greatest(r.last_issued, s.floor) ELSE greatest(o_wall, s.floor) END;
        IF NOT EXISTS (SELECT FROM {schema}.lease_store AS t WHERE t.epoch = s.epoch) THEN
            -- It waited for the opening of another epoch. Asked again, it is told.
            answer.code := 'busy';
        ELSIF last = 9223372036854775807 THEN
            answer.code := 'exhausted';
        ELSIF at < s.grants_from THEN
            answer.code := 'held back';
            answer.remaining := s.grants_from - at;
        ELSE
            answer.code := 'granted';
            answer.token := last + 1;
            answer.remaining := p_ttl;
            o_slot := r.slot;
            wrote := true;
            reserved := greatest(r.mark, s.stamps_above);
            IF p_again AND same AND r.token IS NOT NULL AND at < r.free_from AND r.epoch = s.epoch THEN
                -- Its owner goes on in the window that it has.
                begins := r.window_after;
            END IF;
            IF p_id_time THEN
                begins := coalesce(begins, reserved);
                reserved := greatest(reserved, o_wall + p_ttl);
                o_after := begins;
                o_until := reserved;
            END IF;
            IF p_keep > 0 AND r.token IS NOT NULL THEN
                PERFORM {schema}.lease_remember_slot_1(
                    p_pool, r.slot, least(at, r.free_from), CASE WHEN at < r.free_from THEN 5 ELSE 2 END, NULL, p_keep);
            END IF;
            IF own <> r.slot THEN
                -- Its owner asks through another slot from now on.
                UPDATE {schema}.lease_slot AS t SET asker = NULL, attempt = NULL WHERE t.pool = p_pool AND t.slot = own;
            END IF;
            UPDATE {schema}.lease_slot AS t SET
                last_issued = last + 1, observed = at, asker = p_owner, attempt = p_attempt, owner = p_owner,
                token = last + 1, granted_at = at, free_from = at + p_ttl, epoch = s.epoch, label = p_label,
                identity = p_identity, renewed_at = at, renewals = 0, mark = reserved, window_after = begins,
                place = {schema}.lease_next_slot_1(t.place, p_keep)
            WHERE t.pool = p_pool AND t.slot = r.slot;
        END IF;
    END IF;
    PERFORM {schema}.lease_durable_1(wrote);
    RETURN NEXT;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_renew_slot_1(
    p_pool bytea, p_slot integer, p_owner bigint, p_token bigint, p_ttl bigint, p_epoch bigint, p_id_time boolean,
    p_keep integer, p_wait integer
) RETURNS TABLE (
    o_slot integer, o_wall bigint, o_after bigint, o_until bigint, answer {schema}.lease_answer_1
) LANGUAGE plpgsql AS $lease$
DECLARE
    r {schema}.lease_slot;
    s {schema}.lease_store;
    wrote boolean := false;
    at bigint;
    ends bigint;
    reserved bigint;
    begins bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    {lock_slot}
    SELECT t.* INTO STRICT s FROM {schema}.lease_store AS t;
    o_wall := {schema}.lease_clock_1();
    at := greatest(o_wall, r.observed);
    IF s.timeline = {schema}.lease_timeline_1() AND p_ttl > 0 AND {schema}.lease_stands_1(
        r.token, r.owner, r.epoch, r.free_from, false, p_token, p_owner, p_epoch, s.epoch, at)
    THEN
        ends := greatest(at + p_ttl, r.free_from);
        answer.code := 'renewed';
        answer.epoch := s.epoch;
        answer.token := p_token;
        answer.remaining := ends - at;
        o_slot := p_slot;
        wrote := true;
        reserved := r.mark;
        begins := r.window_after;
        IF p_id_time THEN
            begins := coalesce(begins, greatest(r.mark, s.stamps_above));
            reserved := greatest(r.mark, s.stamps_above, o_wall + p_ttl);
            o_after := begins;
            o_until := reserved;
        END IF;
        UPDATE {schema}.lease_slot AS t SET
            observed = at, free_from = ends, renewed_at = at, renewals = t.renewals + 1, mark = reserved,
            window_after = begins
        WHERE t.pool = p_pool AND t.slot = p_slot;
    ELSE
        answer := {schema}.lease_usable_1(
            answer, {schema}.lease_of_slot_1(r), s, p_pool, p_owner, p_token, p_epoch, o_wall);
        IF answer.code IS NOT NULL THEN
            NULL;
        ELSIF p_ttl <= 0 THEN
            answer := {schema}.lease_refusal_1(answer, {schema}.lease_of_slot_1(r), at, 'invalid ttl');
        ELSE
            answer := {schema}.lease_not_held_1(answer, {schema}.lease_of_slot_1(r), at, p_owner, p_token);
            wrote := answer.code = 'expired';
            IF wrote THEN
                PERFORM {schema}.lease_expire_slot_1(p_pool, p_slot, at, r.free_from, p_keep);
            END IF;
        END IF;
    END IF;
    PERFORM {schema}.lease_durable_1(wrote);
    RETURN NEXT;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_release_slot_1(
    p_pool bytea, p_slot integer, p_owner bigint, p_token bigint, p_epoch bigint, p_last_used bigint, p_keep integer,
    p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    r {schema}.lease_slot;
    s {schema}.lease_store;
    answer {schema}.lease_answer_1;
    wrote boolean := false;
    wall bigint;
    at bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    {lock_slot}
    SELECT t.* INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    IF s.timeline = {schema}.lease_timeline_1() AND {schema}.lease_stands_1(
        r.token, r.owner, r.epoch, r.free_from, false, p_token, p_owner, p_epoch, s.epoch, at)
    THEN
        wrote := true;
        answer.epoch := s.epoch;
        answer.code := 'released';
        PERFORM {schema}.lease_remember_slot_1(p_pool, p_slot, at, 1, NULL, p_keep);
        UPDATE {schema}.lease_slot AS t SET
            observed = at, token = NULL, free_from = at, label = NULL, window_after = NULL,
            -- What was used is used, whatever had been reserved; what others had before is not given back.
            mark = CASE WHEN p_last_used IS NULL THEN r.mark
                ELSE greatest(p_last_used, coalesce(r.window_after, r.mark)) END,
            vacated_token = p_token, vacated_owner = p_owner, vacated_how = 1
        WHERE t.pool = p_pool AND t.slot = p_slot;
    ELSE
        answer := {schema}.lease_usable_1(
            answer, {schema}.lease_of_slot_1(r), s, p_pool, p_owner, p_token, p_epoch, wall);
        IF answer.code IS NOT NULL THEN
            NULL;
        ELSIF r.vacated_token = p_token AND r.vacated_owner = p_owner AND r.vacated_how = 1 THEN
            answer.code := 'already released';
        ELSE
            answer := {schema}.lease_not_held_1(answer, {schema}.lease_of_slot_1(r), at, p_owner, p_token);
            wrote := answer.code = 'expired';
            IF wrote THEN
                PERFORM {schema}.lease_expire_slot_1(p_pool, p_slot, at, r.free_from, p_keep);
            END IF;
        END IF;
    END IF;
    PERFORM {schema}.lease_durable_1(wrote);
    RETURN answer;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_withdraw_slot_1(
    p_pool bytea, p_owner bigint, p_keep integer, p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    r {schema}.lease_slot;
    s {schema}.lease_store;
    answer {schema}.lease_answer_1;
    wall bigint;
    at bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    -- A claim that it is to take away is through by now, or comes when this is committed.
    LOCK TABLE {schema}.lease_pool IN EXCLUSIVE MODE;
    SELECT t.* INTO r FROM {schema}.lease_slot AS t WHERE t.pool = p_pool AND t.asker = p_owner FOR UPDATE;
    SELECT t.* INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    answer.epoch := s.epoch;
    IF s.timeline <> {schema}.lease_timeline_1() THEN
        answer.code := 'lost';
    ELSIF r.token IS NOT NULL AND at < r.free_from THEN
        answer.code := 'released';
        PERFORM {schema}.lease_remember_slot_1(p_pool, r.slot, at, 4, NULL, p_keep);
        UPDATE {schema}.lease_slot AS t SET
            observed = at, token = NULL, free_from = at, label = NULL, window_after = NULL,
            vacated_token = r.token, vacated_owner = p_owner, vacated_how = 3
        WHERE t.pool = p_pool AND t.slot = r.slot;
    ELSIF r.vacated_owner = p_owner AND r.vacated_how <> 2
        AND EXISTS (SELECT 1 FROM {schema}.lease_pool AS p WHERE p.pool = p_pool AND r.slot < p.size) THEN
        answer.code := 'already released';
    ELSE
        answer := {schema}.lease_refusal_1(answer, {schema}.lease_of_slot_1(r), at, 'vacant');
    END IF;
    IF answer.code <> 'lost' THEN
        INSERT INTO {schema}.lease_withdrawn AS w VALUES ({schema}.lease_withdrawn_as_1(p_pool), p_owner, wall)
        ON CONFLICT (name, owner) DO UPDATE SET at = excluded.at;
    END IF;
    PERFORM {schema}.lease_durable_1(true);
    RETURN answer;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_revoke_slot_1(
    p_pool bytea, p_slot integer, p_expect bigint, p_reason text, p_keep integer, p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    r {schema}.lease_slot;
    s {schema}.lease_store;
    answer {schema}.lease_answer_1;
    wrote boolean := false;
    wall bigint;
    at bigint;
    last bigint;
    burnt bigint;
    next_place integer;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    {lock_slot}
    SELECT t.* INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    answer.epoch := s.epoch;
    IF s.timeline <> {schema}.lease_timeline_1() THEN
        answer.code := 'lost';
    ELSIF r.slot IS NULL OR (p_expect IS NOT NULL AND r.token IS NULL) THEN
        answer := {schema}.lease_refusal_1(answer, {schema}.lease_of_slot_1(r), at, 'vacant');
    ELSIF p_expect <> r.token THEN
        answer := {schema}.lease_refusal_1(answer, {schema}.lease_of_slot_1(r), at, 'stale token');
    ELSE
        last := CASE WHEN r.last_issued > 0 THEN greatest(r.last_issued, s.floor) ELSE greatest(wall, s.floor) END;
        -- The lease is broken also where there is no token left to burn.
        IF last = 9223372036854775807 THEN
            answer.code := 'exhausted';
        ELSE
            burnt := last + 1;
            answer.code := 'burnt';
            answer.token := burnt;
        END IF;
        wrote := true;
        IF r.token IS NOT NULL AND at < r.free_from THEN
            PERFORM {schema}.lease_remember_slot_1(p_pool, p_slot, at, 3, p_reason, p_keep);
        ELSE
            PERFORM {schema}.lease_remember_slot_1(p_pool, p_slot, r.free_from, 2, NULL, p_keep);
            IF p_keep > 0 AND burnt IS NOT NULL THEN
                -- As the hold of nobody, that was over at once.
                next_place := {schema}.lease_next_slot_1(r.place, p_keep);
                DELETE FROM {schema}.lease_history AS h
                WHERE h.name = {schema}.lease_slot_name_1(p_pool, p_slot) AND h.slot = next_place;
                INSERT INTO {schema}.lease_history AS h
                VALUES ({schema}.lease_slot_name_1(p_pool, p_slot), next_place, burnt, 0, NULL, NULL, wall, wall, 0, wall,
                    3, 0, p_reason);
            END IF;
        END IF;
        -- It stays closed until the lease would have ended: its holder may not have heard of it.
        UPDATE {schema}.lease_slot AS t SET
            last_issued = coalesce(burnt, last), observed = at, token = NULL, label = NULL, window_after = NULL,
            place = coalesce(next_place, t.place),
            vacated_token = CASE WHEN r.token IS NULL THEN r.vacated_token ELSE r.token END,
            vacated_owner = CASE WHEN r.token IS NULL THEN r.vacated_owner ELSE r.owner END,
            vacated_how = CASE WHEN r.token IS NULL THEN r.vacated_how ELSE 2 END
        WHERE t.pool = p_pool AND t.slot = p_slot;
    END IF;
    PERFORM {schema}.lease_durable_1(wrote);
    RETURN answer;
END $lease$;

-- No row where the pool has its size now; else the highest slot that is in the way, and for how long.
CREATE OR REPLACE FUNCTION {schema}.lease_resize_pool_1(p_pool bytea, p_size integer, p_wait integer)
RETURNS TABLE (o_slot integer, o_remaining bigint) LANGUAGE plpgsql AS $lease$
DECLARE
    now bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    PERFORM {schema}.lease_durable_1(true);
    LOCK TABLE {schema}.lease_pool IN EXCLUSIVE MODE;
    -- A renewal that is under way locks its slot alone, and may yet be told that it was in time.
    PERFORM FROM {schema}.lease_slot AS t WHERE t.pool = p_pool AND t.slot >= p_size AND t.token IS NOT NULL
    ORDER BY t.slot FOR UPDATE;
    now := {schema}.lease_clock_1();
    SELECT t.slot, t.free_from - greatest(now, t.observed) INTO o_slot, o_remaining FROM {schema}.lease_slot AS t
    WHERE t.pool = p_pool AND t.slot >= p_size AND t.free_from > greatest(now, t.observed)
    ORDER BY t.slot DESC LIMIT 1;
    IF FOUND THEN
        RETURN NEXT;
    ELSE
        PERFORM {schema}.lease_size_pool_1(p_pool, p_size);
    END IF;
END $lease$;
