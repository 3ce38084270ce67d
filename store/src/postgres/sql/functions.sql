-- The decisions. Each is the core's, made on one version of the resource's row, in this order: lock the row, read what
-- holds for the store, read the clock, decide, write. A name without a row has nothing to lock, so that whoever may have
-- to write it makes an empty row first; one that stays empty is taken away again.
--
-- What is read behind the lock has to be the latest there is. At a stricter level than READ COMMITTED it would be what there
-- was before the lock was waited for: there they refuse.
--
-- The number at the end of a name is the version of its meaning: a later program brings others beside them.

-- What a decision reads the clock by. It is not now(): that stands still since the transaction began.
CREATE OR REPLACE FUNCTION {schema}.lease_clock_1() RETURNS bigint LANGUAGE sql VOLATILE AS $lease$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$lease$;

-- The same for an epoch, whose first tokens lie above it: refused where nobody has set the clock.
CREATE OR REPLACE FUNCTION {schema}.lease_set_clock_1() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $lease$
DECLARE
    wall CONSTANT bigint := {schema}.lease_clock_1();
BEGIN
    IF wall < {earliest} THEN
        RAISE EXCEPTION 'the clock of this server stands before 2026: no epoch is opened' USING ERRCODE = 'LM001';
    END IF;
    RETURN wall;
END $lease$;

-- Changes when a server is promoted, or set back to an earlier time.
CREATE OR REPLACE FUNCTION {schema}.lease_timeline_1() RETURNS integer LANGUAGE sql VOLATILE AS $lease$
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer
$lease$;

DO $lease$ BEGIN
    CREATE TYPE {schema}.lease_answer_1 AS (
        code text,
        epoch bigint,
        -- Of the grant, or the one that was burnt.
        token bigint,
        -- What remains of the grant, of what is held back, or until grants begin.
        remaining bigint,
        -- The epoch of a lease that another one has ended.
        believed bigint,
        -- The caller's token shows that history was lost.
        rewound boolean,
        holder bigint,
        holder_token bigint,
        holder_for bigint,
        holder_remaining bigint,
        holder_retained boolean,
        holder_label text,
        holder_identity text,
        vacated_token bigint,
        vacated_owner bigint,
        vacated_how integer,
        end_token bigint,
        end_owner bigint,
        end_label text,
        end_once text,
        end_at bigint
    );
EXCEPTION WHEN duplicate_object THEN NULL;
END $lease$;

-- Whoever holds the resource, or vacated it, beside the reason for which nothing was done.
CREATE OR REPLACE FUNCTION {schema}.lease_refusal_1(
    INOUT answer {schema}.lease_answer_1, r {schema}.lease_row, at bigint, reason text
) LANGUAGE plpgsql AS $lease$
BEGIN
    answer.code := reason;
    IF r.token IS NULL THEN
        answer.vacated_token := r.vacated_token;
        answer.vacated_owner := r.vacated_owner;
        answer.vacated_how := r.vacated_how;
    ELSIF at < r.expires_at THEN
        answer.holder := r.owner;
        answer.holder_token := r.token;
        answer.holder_for := at - r.granted_at;
        answer.holder_remaining := r.expires_at - at;
        answer.holder_retained := r.retained;
        answer.holder_label := r.label;
        answer.holder_identity := r.identity;
    END IF;
END $lease$;

-- Writes down how the hold in a locked row has ended, before another takes its place, unless that is told already. The
-- outcomes and results are numbered as in the program.
CREATE OR REPLACE FUNCTION {schema}.lease_remember_1(
    p_name bytea, ended bigint, how integer, result integer, why text, keep integer
) RETURNS void LANGUAGE plpgsql AS $lease$
BEGIN
    IF keep > 0 THEN
        INSERT INTO {schema}.lease_history AS h
        SELECT t.name, t.slot, t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, ended, how,
            result, why
        FROM {schema}.lease_row AS t WHERE t.name = p_name AND t.token IS NOT NULL AND NOT t.retained
        ON CONFLICT (name, slot) DO UPDATE SET
            token = excluded.token, owner = excluded.owner, label = excluded.label, identity = excluded.identity,
            granted_at = excluded.granted_at, renewed_at = excluded.renewed_at, renewals = excluded.renewals,
            ends_at = excluded.ends_at, outcome = excluded.outcome, result = excluded.result, reason = excluded.reason
        WHERE h.token < excluded.token;
    END IF;
END $lease$;

-- The place in the history of the hold after this one.
CREATE OR REPLACE FUNCTION {schema}.lease_next_slot_1(slot integer, keep integer)
RETURNS integer LANGUAGE sql IMMUTABLE AS $lease$
    SELECT CASE WHEN slot + 1 < keep THEN slot + 1 ELSE 0 END
$lease$;

-- The token below the first one of a name that has none.
CREATE OR REPLACE FUNCTION {schema}.lease_before_first_1(floor bigint, wall bigint)
RETURNS bigint LANGUAGE plpgsql AS $lease$
DECLARE
    pruned bigint;
BEGIN
    -- Held to the commit: a prune that raises the floor comes before this grant or after it, never in its middle.
    LOCK TABLE {schema}.lease_floor IN ROW SHARE MODE;
    SELECT f.floor INTO STRICT pruned FROM {schema}.lease_floor AS f;
    RETURN greatest(wall, floor, pruned);
END $lease$;

-- Locks a name that had no row a moment ago: by an empty one where it still has none, which it says.
CREATE OR REPLACE FUNCTION {schema}.lease_make_1(p_name bytea) RETURNS boolean LANGUAGE plpgsql AS $lease$
BEGIN
    LOOP
        INSERT INTO {schema}.lease_row AS t (name, last_issued, observed) VALUES (p_name, 0, 0) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
        PERFORM FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE;
        IF FOUND THEN
            RETURN false;
        END IF;
    END LOOP;
END $lease$;

-- What is told must be on the disk before it is told, however lax the server is set. What others have committed is on this
-- server's disk before it is seen; so a decision that changed nothing need not wait for that.
--
-- Where commits wait for standbys, each decision does, also one that changed nothing: it may repeat a grant, or name one, that
-- is seen here although no standby has it, since the wait of its commit was cancelled, or the server crashed meanwhile.
--
-- It answers what it was asked, so that it can be called by an assignment: PERFORM would run it as a query.
CREATE OR REPLACE FUNCTION {schema}.lease_durable_1(INOUT wrote boolean) LANGUAGE plpgsql AS $lease$
DECLARE
    setting text;
    alone CONSTANT boolean := current_setting('synchronous_standby_names') = '';
BEGIN
    IF alone AND NOT wrote THEN
        setting := set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        setting := set_config('synchronous_commit', 'on', true);
    END IF;
    -- That the wait was cancelled is said by a warning alone.
    IF NOT alone AND current_setting('client_min_messages') = 'error' THEN
        setting := set_config('client_min_messages', 'warning', true);
    END IF;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_acquire_1(
    p_name bytea, p_owner bigint, p_ttl bigint, p_attempt bigint, p_epoch bigint, p_label text, p_identity text,
    p_once text, p_again boolean, p_keep integer, p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    setting text;
    r {schema}.lease_row;
    answer {schema}.lease_answer_1;
    made boolean := false;
    wrote boolean := false;
    here bigint;
    floor bigint;
    grants_from bigint;
    same_history boolean;
    withdrawn boolean;
    wall bigint;
    at bigint;
    last bigint;
BEGIN
    {level}
    setting := set_config('lock_timeout', p_wait::text, true);
    SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        made := {schema}.lease_make_1(p_name);
        SELECT * INTO STRICT r FROM {schema}.lease_row AS t WHERE t.name = p_name;
    END IF;
    SELECT s.epoch, s.floor, s.grants_from, s.timeline = {schema}.lease_timeline_1(),
        EXISTS (SELECT FROM {schema}.lease_withdrawn AS w WHERE w.name = p_name AND w.owner = p_owner),
        {schema}.lease_clock_1()
    INTO STRICT here, floor, grants_from, same_history, withdrawn, wall FROM {schema}.lease_store AS s;
    IF p_once IS NOT NULL THEN
        SELECT d.token, d.owner, d.label, d.once, d.at
        INTO answer.end_token, answer.end_owner, answer.end_label, answer.end_once, answer.end_at
        FROM {schema}.lease_done AS d WHERE d.name = p_name AND d.once = p_once;
    END IF;
    at := greatest(wall, r.observed);
    answer.epoch := here;
    IF NOT same_history THEN
        answer.code := 'lost';
    ELSIF p_epoch <> here THEN
        answer.code := 'new epoch';
        answer.believed := p_epoch;
    ELSIF answer.end_token IS NOT NULL THEN
        answer.code := 'done';
    ELSIF withdrawn THEN
        answer.code := 'withdrawn';
    ELSIF r.owner = p_owner AND p_attempt <= r.attempt THEN
        -- A doubled or delayed request: it is told what its owner already has, or that it is too late.
        IF r.token IS NULL OR r.epoch <> here OR r.retained THEN
            answer.code := 'answered before';
        ELSIF at < r.expires_at THEN
            answer.code := 'granted';
            answer.token := r.token;
            answer.remaining := r.expires_at - at;
        ELSE
            -- The answer says that the lease is over: that has to stay so.
            answer.code := 'run out';
            wrote := true;
            PERFORM {schema}.lease_expire_1(p_name, at, r.expires_at, p_keep);
        END IF;
    ELSIF p_ttl <= 0 THEN
        answer := {schema}.lease_refusal_1(answer, r, at, 'invalid ttl');
    ELSIF r.token IS NOT NULL AND at < r.expires_at AND NOT (p_again AND r.owner = p_owner AND NOT r.retained) THEN
        answer := {schema}.lease_refusal_1(answer, r, at, 'occupied');
    ELSE
        last := CASE WHEN r.last_issued > 0 THEN greatest(r.last_issued, floor)
            ELSE {schema}.lease_before_first_1(floor, wall) END;
        IF last = 9223372036854775807 THEN
            answer := {schema}.lease_refusal_1(answer, r, at, 'exhausted');
        ELSIF at < grants_from THEN
            answer.code := 'held back';
            answer.remaining := grants_from - at;
        ELSE
            answer.code := 'granted';
            answer.token := last + 1;
            answer.remaining := p_ttl;
            wrote := true;
            IF p_keep > 0 AND r.token IS NOT NULL THEN
                PERFORM {schema}.lease_remember_1(
                    p_name, least(at, r.expires_at), CASE WHEN at < r.expires_at THEN 5 ELSE 2 END, 0, NULL, p_keep);
            END IF;
            UPDATE {schema}.lease_row AS t SET
                last_issued = last + 1, observed = at, owner = p_owner, attempt = p_attempt, token = last + 1,
                granted_at = at, expires_at = at + p_ttl, epoch = here, retained = false,
                label = p_label, identity = p_identity, renewed_at = at, renewals = 0,
                slot = {schema}.lease_next_slot_1(t.slot, p_keep)
            WHERE t.name = p_name;
        END IF;
    END IF;
    IF made AND NOT wrote THEN
        DELETE FROM {schema}.lease_row AS t WHERE t.name = p_name;
    END IF;
    wrote := {schema}.lease_durable_1(wrote);
    RETURN answer;
END $lease$;

-- Whether the caller's lease may be looked at at all, and whether its token shows that history was lost.
CREATE OR REPLACE FUNCTION {schema}.lease_usable_1(
    INOUT answer {schema}.lease_answer_1, r {schema}.lease_row, s {schema}.lease_store,
    p_name bytea, p_owner bigint, p_token bigint, p_epoch bigint, wall bigint
) LANGUAGE plpgsql AS $lease$
BEGIN
    answer.epoch := s.epoch;
    answer.rewound := false;
    IF s.timeline <> {schema}.lease_timeline_1() THEN
        answer.code := 'lost';
    ELSIF p_epoch <> s.epoch THEN
        answer.code := 'new epoch';
        answer.believed := p_epoch;
    ELSIF r.token = p_token AND r.owner = p_owner AND r.epoch <> s.epoch THEN
        -- Also for a caller who does not say which one it believes in.
        answer.code := 'new epoch';
        answer.believed := r.epoch;
    ELSIF p_epoch IS NOT NULL AND p_token > greatest(r.last_issued, s.floor) AND p_token <= wall + 31536000000000 THEN
        answer.rewound :=
            p_token > (SELECT f.floor FROM {schema}.lease_floor AS f)
            -- Owners are drawn for every hold: one that is shown under another name was not lost.
            AND NOT EXISTS (SELECT FROM {schema}.lease_row AS t WHERE t.owner = p_owner AND t.token = p_token)
            AND NOT EXISTS (
                SELECT FROM {schema}.lease_row AS t WHERE t.vacated_owner = p_owner AND t.vacated_token = p_token)
            AND NOT EXISTS (
                SELECT FROM {schema}.lease_slot AS t WHERE t.owner = p_owner AND t.token = p_token
                OR t.vacated_owner = p_owner AND t.vacated_token = p_token);
    END IF;
END $lease$;

-- Whether the caller's lease is the one that is held now, in this epoch, and goes on.
CREATE OR REPLACE FUNCTION {schema}.lease_stands_1(
    token bigint, owner bigint, epoch bigint, expires_at bigint, retained boolean,
    p_token bigint, p_owner bigint, p_epoch bigint, here bigint, at bigint
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $lease$
    SELECT token = p_token AND owner = p_owner AND epoch = here AND (p_epoch IS NULL OR p_epoch = here)
        AND NOT retained AND at < expires_at
$lease$;

-- Why a lease that is not the one held now can be neither renewed nor released.
CREATE OR REPLACE FUNCTION {schema}.lease_not_held_1(
    INOUT answer {schema}.lease_answer_1, r {schema}.lease_row, at bigint, p_owner bigint, p_token bigint
) LANGUAGE plpgsql AS $lease$
BEGIN
    answer := {schema}.lease_refusal_1(answer, r, at, CASE
        WHEN r.token IS NULL THEN 'vacant'
        WHEN r.owner <> p_owner THEN 'wrong owner'
        WHEN r.token <> p_token THEN 'stale token'
        ELSE 'expired'
    END);
END $lease$;

-- An answer that says that a lease is over has to stay true.
CREATE OR REPLACE FUNCTION {schema}.lease_expire_1(
    p_name bytea, at bigint, ended bigint, keep integer
) RETURNS void LANGUAGE plpgsql AS $lease$
BEGIN
    UPDATE {schema}.lease_row AS t SET observed = at WHERE t.name = p_name;
    PERFORM {schema}.lease_remember_1(p_name, ended, 2, 0, NULL, keep);
END $lease$;

-- `p_skip`: a row that somebody has locked is not waited for; the answer is then 'locked'.
CREATE OR REPLACE FUNCTION {schema}.lease_renew_1(
    p_name bytea, p_owner bigint, p_token bigint, p_ttl bigint, p_epoch bigint, p_skip boolean, p_keep integer,
    p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    setting text;
    s {schema}.lease_store;
    r {schema}.lease_row;
    answer {schema}.lease_answer_1;
    wrote boolean := false;
    wall bigint;
    at bigint;
    until bigint;
BEGIN
    {level}
    setting := set_config('lock_timeout', p_wait::text, true);
    IF p_skip THEN
        SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (SELECT FROM {schema}.lease_row AS t WHERE t.name = p_name) THEN
            answer.code := 'locked';
            RETURN answer;
        END IF;
    ELSE
        SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE;
    END IF;
    SELECT * INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    IF s.timeline = {schema}.lease_timeline_1() AND p_ttl > 0 AND {schema}.lease_stands_1(
        r.token, r.owner, r.epoch, r.expires_at, r.retained, p_token, p_owner, p_epoch, s.epoch, at)
    THEN
        until := greatest(at + p_ttl, r.expires_at);
        answer.code := 'renewed';
        answer.epoch := s.epoch;
        answer.token := p_token;
        answer.remaining := until - at;
        wrote := true;
        UPDATE {schema}.lease_row AS t SET
            observed = at, expires_at = until, renewed_at = at, renewals = t.renewals + 1
        WHERE t.name = p_name;
    ELSE
        answer := {schema}.lease_usable_1(answer, r, s, p_name, p_owner, p_token, p_epoch, wall);
        IF answer.code IS NOT NULL THEN
            NULL;
        ELSIF r.retained AND r.token = p_token AND p_ttl > 0 THEN
            -- It was released; nothing extends it, whatever was in flight.
            answer := {schema}.lease_refusal_1(answer, r, at, 'vacant');
            answer.vacated_token := r.vacated_token;
            answer.vacated_owner := r.vacated_owner;
            answer.vacated_how := r.vacated_how;
        ELSIF p_ttl <= 0 THEN
            answer := {schema}.lease_refusal_1(answer, r, at, 'invalid ttl');
        ELSE
            answer := {schema}.lease_not_held_1(answer, r, at, p_owner, p_token);
            wrote := answer.code = 'expired';
            IF wrote THEN
                PERFORM {schema}.lease_expire_1(p_name, at, r.expires_at, p_keep);
            END IF;
        END IF;
    END IF;
    IF NOT p_skip THEN
        wrote := {schema}.lease_durable_1(wrote);
    END IF;
    RETURN answer;
END $lease$;

-- One decision each, in the order of their names and without waiting, so that two of these never stop each other. Where all
-- of them are there and free, those that are simply renewed are so by one statement, and answered in one row; the others are
-- decided one by one. `n` counts as asked; `remains` goes with it where there may be more than one.
--
-- The plan is the same for any names: to look for a better one would take as long as the renewals.
CREATE OR REPLACE FUNCTION {schema}.lease_renew_many_1(
    p_names bytea[], p_owners bigint[], p_tokens bigint[], p_ttls bigint[], p_epochs bigint[], p_keep integer,
    p_wait integer
) RETURNS TABLE (n bigint[], remains bigint[], answer {schema}.lease_answer_1)
LANGUAGE plpgsql SET plan_cache_mode = 'force_generic_plan' AS $lease$
DECLARE
    s {schema}.lease_store;
    wall bigint;
    locked tid[];
    renewed bigint[];
    asked record;
BEGIN
    {level}
    PERFORM {schema}.lease_durable_1(true);
    SELECT array_agg(l.ctid) INTO locked FROM (
        SELECT t.ctid FROM {schema}.lease_row AS t WHERE t.name = ANY (p_names) ORDER BY t.name FOR UPDATE SKIP LOCKED
    ) AS l;
    SELECT * INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    -- Where they were asked for in order, and none twice, each of them stands beside its own row.
    IF cardinality(locked) = cardinality(p_names) AND s.timeline = {schema}.lease_timeline_1() THEN
        WITH done AS (
            UPDATE {schema}.lease_row AS t SET
                observed = greatest(wall, t.observed), renewed_at = greatest(wall, t.observed),
                expires_at = greatest(greatest(wall, t.observed) + a.ttl, t.expires_at), renewals = t.renewals + 1
            FROM unnest(locked, p_names, p_owners, p_tokens, p_ttls, p_epochs)
                WITH ORDINALITY AS a (ctid, name, owner, token, ttl, epoch, n)
            WHERE t.ctid = a.ctid AND t.name = a.name AND a.ttl > 0 AND {schema}.lease_stands_1(
                t.token, t.owner, t.epoch, t.expires_at, t.retained, a.token, a.owner, a.epoch, s.epoch,
                greatest(wall, t.observed))
            RETURNING a.n, t.expires_at - t.observed AS remains
        )
        SELECT array_agg(d.n), array_agg(d.remains) INTO renewed, remains FROM done AS d;
        IF renewed IS NOT NULL THEN
            n := renewed;
            answer.code := 'renewed';
            answer.epoch := s.epoch;
            RETURN NEXT;
            IF cardinality(renewed) = cardinality(p_names) THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    FOR asked IN
        SELECT u.* FROM unnest(p_names, p_owners, p_tokens, p_ttls, p_epochs)
            WITH ORDINALITY AS u (name, owner, token, ttl, epoch, n)
        WHERE NOT EXISTS (SELECT FROM unnest(renewed) AS d (n) WHERE d.n = u.n) ORDER BY u.name, u.n
    LOOP
        answer := {schema}.lease_renew_1(
            asked.name, asked.owner, asked.token, asked.ttl, asked.epoch, true, p_keep, p_wait);
        n := ARRAY[asked.n];
        remains := NULL;
        RETURN NEXT;
    END LOOP;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_release_1(
    p_name bytea, p_owner bigint, p_token bigint, p_epoch bigint, p_result integer, p_once text, p_at_least bigint,
    p_keep integer, p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    setting text;
    s {schema}.lease_store;
    r {schema}.lease_row;
    answer {schema}.lease_answer_1;
    wrote boolean := false;
    wall bigint;
    at bigint;
BEGIN
    {level}
    setting := set_config('lock_timeout', p_wait::text, true);
    SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE;
    SELECT * INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    IF s.timeline = {schema}.lease_timeline_1() AND {schema}.lease_stands_1(
        r.token, r.owner, r.epoch, r.expires_at, r.retained, p_token, p_owner, p_epoch, s.epoch, at)
    THEN
        wrote := true;
        answer.epoch := s.epoch;
        PERFORM {schema}.lease_remember_1(p_name, at, 1, p_result, NULL, p_keep);
        IF p_result = 1 THEN
            INSERT INTO {schema}.lease_good AS g VALUES (p_name, p_token, p_owner, r.label, p_once, wall)
            ON CONFLICT (name) DO UPDATE SET
                token = excluded.token, owner = excluded.owner, label = excluded.label, once = excluded.once,
                at = excluded.at;
            IF p_once IS NOT NULL THEN
                INSERT INTO {schema}.lease_done AS d VALUES (p_name, p_once, p_token, p_owner, r.label, wall)
                ON CONFLICT DO NOTHING;
            END IF;
        END IF;
        IF r.granted_at + p_at_least > at THEN
            -- Nobody else is to have it so soon: the lease runs on, with its work ended.
            answer.code := 'retained';
            answer.remaining := r.granted_at + p_at_least - at;
            UPDATE {schema}.lease_row AS t SET
                observed = at, expires_at = r.granted_at + p_at_least, retained = true,
                vacated_token = p_token, vacated_owner = p_owner, vacated_how = 1
            WHERE t.name = p_name;
        ELSE
            answer.code := 'released';
            UPDATE {schema}.lease_row AS t SET
                observed = at, token = NULL, retained = false, label = NULL, identity = NULL,
                vacated_token = p_token, vacated_owner = p_owner, vacated_how = 1
            WHERE t.name = p_name;
        END IF;
    ELSE
        answer := {schema}.lease_usable_1(answer, r, s, p_name, p_owner, p_token, p_epoch, wall);
        IF answer.code IS NOT NULL THEN
            NULL;
        ELSIF r.vacated_token = p_token AND r.vacated_owner = p_owner AND r.vacated_how = 1 THEN
            answer.code := 'already released';
        ELSE
            answer := {schema}.lease_not_held_1(answer, r, at, p_owner, p_token);
            wrote := answer.code = 'expired';
            IF wrote THEN
                PERFORM {schema}.lease_expire_1(p_name, at, r.expires_at, p_keep);
            END IF;
        END IF;
    END IF;
    wrote := {schema}.lease_durable_1(wrote);
    RETURN answer;
END $lease$;

-- It locks the name also where that has no row, so that a first grant which it is to take away comes before or after it.
CREATE OR REPLACE FUNCTION {schema}.lease_withdraw_1(
    p_name bytea, p_owner bigint, p_keep integer, p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    s {schema}.lease_store;
    r {schema}.lease_row;
    answer {schema}.lease_answer_1;
    made boolean := false;
    wall bigint;
    at bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        made := {schema}.lease_make_1(p_name);
        SELECT * INTO STRICT r FROM {schema}.lease_row AS t WHERE t.name = p_name;
    END IF;
    SELECT * INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    answer.epoch := s.epoch;
    IF s.timeline <> {schema}.lease_timeline_1() THEN
        answer.code := 'lost';
    ELSIF r.token IS NOT NULL AND r.owner = p_owner AND NOT r.retained THEN
        IF at < r.expires_at THEN
            answer.code := 'released';
            PERFORM {schema}.lease_remember_1(p_name, at, 4, 0, NULL, p_keep);
            UPDATE {schema}.lease_row AS t SET
                observed = at, token = NULL, label = NULL, identity = NULL,
                vacated_token = r.token, vacated_owner = p_owner, vacated_how = 3
            WHERE t.name = p_name;
        ELSE
            answer := {schema}.lease_refusal_1(answer, r, at, 'expired');
            PERFORM {schema}.lease_expire_1(p_name, at, r.expires_at, p_keep);
        END IF;
    ELSIF r.vacated_owner = p_owner AND r.vacated_how <> 2 THEN
        answer.code := 'already released';
    ELSIF r.token IS NOT NULL THEN
        answer := {schema}.lease_refusal_1(answer, r, at, 'wrong owner');
    ELSE
        answer := {schema}.lease_refusal_1(answer, r, at, 'vacant');
    END IF;
    IF answer.code <> 'lost' THEN
        INSERT INTO {schema}.lease_withdrawn AS w VALUES (p_name, p_owner, wall)
        ON CONFLICT (name, owner) DO UPDATE SET at = excluded.at;
    END IF;
    IF made THEN
        DELETE FROM {schema}.lease_row AS t WHERE t.name = p_name;
    END IF;
    PERFORM {schema}.lease_durable_1(true);
    RETURN answer;
END $lease$;

CREATE OR REPLACE FUNCTION {schema}.lease_revoke_1(
    p_name bytea, p_expect bigint, p_reason text, p_keep integer, p_wait integer
) RETURNS {schema}.lease_answer_1 LANGUAGE plpgsql AS $lease$
DECLARE
    s {schema}.lease_store;
    r {schema}.lease_row;
    answer {schema}.lease_answer_1;
    made boolean := false;
    wrote boolean := false;
    wall bigint;
    at bigint;
    last bigint;
    burnt bigint;
    place integer;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        made := {schema}.lease_make_1(p_name);
        SELECT * INTO STRICT r FROM {schema}.lease_row AS t WHERE t.name = p_name;
    END IF;
    SELECT * INTO STRICT s FROM {schema}.lease_store AS t;
    wall := {schema}.lease_clock_1();
    at := greatest(wall, r.observed);
    answer.epoch := s.epoch;
    IF s.timeline <> {schema}.lease_timeline_1() THEN
        answer.code := 'lost';
    ELSIF p_expect IS NOT NULL AND r.token IS NULL THEN
        answer := {schema}.lease_refusal_1(answer, r, at, 'vacant');
    ELSIF p_expect <> r.token THEN
        answer := {schema}.lease_refusal_1(answer, r, at, 'stale token');
    ELSE
        last := CASE WHEN r.last_issued > 0 THEN greatest(r.last_issued, s.floor)
            ELSE {schema}.lease_before_first_1(s.floor, wall) END;
        -- The lease is broken also where there is no token left to burn.
        IF last = 9223372036854775807 THEN
            answer.code := 'exhausted';
        ELSE
            burnt := last + 1;
            answer.code := 'burnt';
            answer.token := burnt;
        END IF;
        wrote := true;
        IF r.token IS NOT NULL AND NOT r.retained AND at < r.expires_at THEN
            PERFORM {schema}.lease_remember_1(p_name, at, 3, 0, p_reason, p_keep);
        ELSE
            PERFORM {schema}.lease_remember_1(p_name, r.expires_at, 2, 0, NULL, p_keep);
            IF p_keep > 0 AND burnt IS NOT NULL THEN
                -- As the hold of nobody, that was over at once.
                place := {schema}.lease_next_slot_1(r.slot, p_keep);
                DELETE FROM {schema}.lease_history AS h WHERE h.name = p_name AND h.slot = place;
                INSERT INTO {schema}.lease_history AS h
                VALUES (p_name, place, burnt, 0, NULL, NULL, wall, wall, 0, wall, 3, 0, p_reason);
            END IF;
        END IF;
        UPDATE {schema}.lease_row AS t SET
            last_issued = coalesce(burnt, last), observed = at, token = NULL, retained = false, label = NULL,
            identity = NULL, slot = coalesce(place, t.slot),
            -- The holder of what is held back had released it, and may ask again whether it did.
            vacated_token = CASE WHEN r.token IS NULL OR r.retained THEN r.vacated_token ELSE r.token END,
            vacated_owner = CASE WHEN r.token IS NULL OR r.retained THEN r.vacated_owner ELSE r.owner END,
            vacated_how = CASE WHEN r.token IS NULL OR r.retained THEN r.vacated_how ELSE 2 END
        WHERE t.name = p_name;
    END IF;
    IF made AND NOT wrote THEN
        DELETE FROM {schema}.lease_row AS t WHERE t.name = p_name;
    END IF;
    PERFORM {schema}.lease_durable_1(wrote);
    RETURN answer;
END $lease$;

-- Forgets some of the resources that nobody has held for so long, and history as old; says whether there are more.
CREATE OR REPLACE FUNCTION {schema}.lease_prune_1(p_older bigint, p_at_once integer, p_wait integer)
RETURNS TABLE (resources bigint, history bigint, floor bigint, more boolean) LANGUAGE plpgsql AS $lease$
DECLARE
    -- The server need not be that old.
    before bigint := greatest({schema}.lease_clock_1() - p_older, 0);
    names bytea[];
    greatest_token bigint;
    removed bigint;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    PERFORM {schema}.lease_durable_1(true);
    -- Every first grant takes this lock before it reads the floor, and keeps it to its commit.
    LOCK TABLE {schema}.lease_floor IN EXCLUSIVE MODE;
    SELECT array_agg(old.name), max(old.last_issued) INTO names, greatest_token FROM (
        SELECT t.name, t.last_issued FROM {schema}.lease_row AS t
        WHERE t.observed <= before AND (t.token IS NULL OR t.expires_at <= before)
        LIMIT p_at_once FOR UPDATE SKIP LOCKED
    ) AS old;
    UPDATE {schema}.lease_floor AS f SET floor = greatest(f.floor, coalesce(greatest_token, 0))
    RETURNING greatest(f.floor, (SELECT s.floor FROM {schema}.lease_store AS s)) INTO floor;
    DELETE FROM {schema}.lease_row AS t WHERE t.name = ANY (names);
    GET DIAGNOSTICS resources = ROW_COUNT;
    more := resources = p_at_once;
    DELETE FROM {schema}.lease_history AS h WHERE (h.name, h.slot) IN (
        SELECT o.name, o.slot FROM {schema}.lease_history AS o WHERE o.ends_at <= before LIMIT p_at_once)
        -- A place may have been written anew since it was chosen.
        AND h.ends_at <= before;
    GET DIAGNOSTICS history = ROW_COUNT;
    more := more OR history = p_at_once;
    DELETE FROM {schema}.lease_done AS d WHERE d.at <= before AND NOT EXISTS (
        SELECT FROM {schema}.lease_good AS g WHERE g.name = d.name AND g.once = d.once);
    -- An owner is drawn for one hold: none asks again after the longest ttl there is.
    DELETE FROM {schema}.lease_withdrawn AS w WHERE w.at <= {schema}.lease_clock_1() - 31536000000000;
    RETURN NEXT;
END $lease$;

-- Opens an epoch in place of `p_instead`; where the store is in another one by now, nothing happens. Says which it is in.
CREATE OR REPLACE FUNCTION {schema}.lease_open_epoch_1(
    p_instead bigint, p_epoch bigint, p_above bigint, p_dead boolean, p_max_ttl bigint, p_wait integer
) RETURNS bigint LANGUAGE plpgsql AS $lease$
DECLARE
    s {schema}.lease_store;
    wall bigint;
    last bigint;
    leap CONSTANT bigint := 4294967296;
    most CONSTANT bigint := 9223372036854775807;
BEGIN
    {level}
    PERFORM set_config('lock_timeout', p_wait::text, true);
    PERFORM {schema}.lease_durable_1(true);
    SELECT * INTO STRICT s FROM {schema}.lease_store AS t FOR UPDATE;
    IF s.epoch <> p_instead THEN
        RETURN s.epoch;
    END IF;
    wall := {schema}.lease_set_clock_1();
    SELECT greatest(
        s.floor, (SELECT f.floor FROM {schema}.lease_floor AS f), coalesce(max(t.last_issued), 0),
        (SELECT coalesce(max(o.last_issued), 0) FROM {schema}.lease_slot AS o))
    INTO last FROM {schema}.lease_row AS t;
    last := CASE WHEN last > most - leap THEN most ELSE last + leap END;
    UPDATE {schema}.lease_store AS t SET
        epoch = p_epoch,
        floor = greatest(last, p_above, wall),
        grants_from = CASE WHEN p_dead THEN 0 ELSE wall + p_max_ttl END,
        -- Whatever was granted, its ID time ended at most `p_max_ttl` after the clock of that moment.
        stamps_above = greatest(t.stamps_above, wall + p_max_ttl),
        system_identifier = (SELECT c.system_identifier FROM pg_control_system() AS c),
        timeline = {schema}.lease_timeline_1();
    DELETE FROM {schema}.lease_history AS h USING {schema}.lease_row AS t
    WHERE h.name = t.name AND h.slot = t.slot AND h.token < t.token AND wall < t.expires_at AND NOT t.retained;
    INSERT INTO {schema}.lease_history AS h
    SELECT t.name, t.slot, t.token, t.owner, t.label, t.identity, t.granted_at, t.renewed_at, t.renewals, wall, 6, 0, NULL
    FROM {schema}.lease_row AS t WHERE t.token IS NOT NULL AND wall < t.expires_at AND NOT t.retained
    ON CONFLICT DO NOTHING;
    PERFORM {schema}.lease_remember_slot_1(t.pool, t.slot, wall, 6, NULL, 1)
    FROM {schema}.lease_slot AS t WHERE t.token IS NOT NULL AND wall < t.free_from;
    IF p_dead THEN
        UPDATE {schema}.lease_row AS t SET expires_at = wall WHERE t.token IS NOT NULL AND wall < t.expires_at;
        UPDATE {schema}.lease_slot AS t SET free_from = wall WHERE t.token IS NOT NULL AND wall < t.free_from;
    END IF;
    RETURN p_epoch;
END $lease$;

-- The strict half of a guard, after the mark: refuses a lease that is not the latest committed grant any more. It looks,
-- and locks nothing, so that it holds up no renewal, grant or revoke.
CREATE OR REPLACE FUNCTION {schema}.lease_fence_strict_1(
    p_resource bytea, p_token bigint, p_owner bigint, p_epoch bigint
) RETURNS void LANGUAGE plpgsql AS $lease$
DECLARE
    r {schema}.lease_row;
    here bigint;
BEGIN
    -- Elsewhere a transaction does not see what was committed since it began.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'lease fence: not strict under this isolation' USING ERRCODE = 'LF005';
    END IF;
    SELECT s.epoch INTO STRICT here FROM {schema}.lease_store AS s;
    SELECT * INTO r FROM {schema}.lease_row AS t WHERE t.name = p_resource;
    IF here <> p_epoch OR r.epoch <> here THEN
        RAISE EXCEPTION 'lease fence: lost, the epoch is another' USING ERRCODE = 'LF006';
    END IF;
    IF r.token = p_token AND r.owner = p_owner AND NOT r.retained THEN
        RETURN;
    END IF;
    IF r.last_issued > p_token THEN
        RAISE EXCEPTION 'lease fence: stale token' USING ERRCODE = 'LF002', DETAIL = r.last_issued::text;
    END IF;
    RAISE EXCEPTION 'lease fence: lost, it was given back or revoked' USING ERRCODE = 'LF006';
END $lease$;
