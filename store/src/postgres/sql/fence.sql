-- The marks of fences, in the database whose writes they guard. A token is judged where the mark is written, in the
-- transaction of the write, so that plain SQL of any driver is held to the same rules.
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE IF NOT EXISTS {schema}.lease_fence (
    store text COLLATE "C" NOT NULL,
    resource bytea NOT NULL,
    slot bigint NOT NULL,
    token bigint NOT NULL,
    owner bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (store, resource, slot)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS {schema}.lease_fence_floor (
    store text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL
);

-- The floor of the only store is there from the start: of two guards that both had to make it, one would fail.
INSERT INTO {schema}.lease_fence_floor VALUES ('', 0) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS {schema}.lease_fence_log (
    at bigint NOT NULL,
    store text NOT NULL,
    resource bytea NOT NULL,
    slot bigint NOT NULL,
    was bigint NOT NULL,
    becomes bigint,
    reason text NOT NULL
);

-- Writes the mark, also where it does not rise: that is what makes two guarded transactions follow each other. Whoever is
-- refused here has its transaction aborted.
CREATE OR REPLACE FUNCTION {schema}.lease_fence_pass_1(
    p_store text, p_resource bytea, p_slot bigint, p_token bigint, p_owner bigint
) RETURNS void LANGUAGE plpgsql AS $lease$
DECLARE
    -- A wait ends after 5 s, or sooner where the transaction's own wait for a lock does.
    own text := current_setting('lock_timeout');
    waits_longer boolean := own = '0' OR own::interval > interval '5 seconds';
    wall bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    mark {schema}.lease_fence;
    is_new boolean;
    written xid;
BEGIN
    IF p_token < 1 OR p_token > wall + 31536000000000 THEN
        RAISE EXCEPTION 'lease fence: token out of range' USING ERRCODE = 'LF001';
    END IF;
    IF waits_longer THEN
        PERFORM set_config('lock_timeout', '5s', true);
    END IF;
    INSERT INTO {schema}.lease_fence AS m VALUES (p_store, p_resource, p_slot, p_token, p_owner, wall)
    ON CONFLICT (store, resource, slot) DO UPDATE SET token = excluded.token, owner = excluded.owner, at = excluded.at
    WHERE m.token < excluded.token OR (m.token = excluded.token AND m.owner IN (excluded.owner, 0))
    -- A mark that was there has been locked by this statement, and its new version still says so.
    RETURNING m.xmax = 0 INTO is_new;
    IF NOT FOUND THEN
        SELECT * INTO mark FROM {schema}.lease_fence AS m
        WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot;
        IF mark.token = p_token THEN
            RAISE EXCEPTION 'lease fence: rewound' USING ERRCODE = 'LF003', DETAIL = mark.owner::text;
        END IF;
        RAISE EXCEPTION 'lease fence: stale token' USING ERRCODE = 'LF002', DETAIL = mark.token::text;
    END IF;
    SELECT m.xmin INTO written FROM {schema}.lease_fence AS m
    WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot;
    -- It could be rolled back alone, and leave writes without their guard.
    IF written <> pg_current_xact_id()::xid THEN
        RAISE EXCEPTION 'lease fence: inside a savepoint' USING ERRCODE = 'LF004';
    END IF;
    -- A transaction that sees what was committed when it began, and no more, would miss the floor of a mark that was pruned
    -- since. So it locks the floor, which fails where there is a newer one.
    IF is_new AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        INSERT INTO {schema}.lease_fence_floor VALUES (p_store, 0) ON CONFLICT DO NOTHING;
        PERFORM FROM {schema}.lease_fence_floor AS f WHERE f.store = p_store FOR SHARE;
    END IF;
    IF waits_longer THEN
        PERFORM set_config('lock_timeout', own, true);
    END IF;
    -- One that was not there may have been pruned. After the write: one that is being pruned has raised the floor by then.
    IF is_new THEN
        SELECT f.token INTO mark.token FROM {schema}.lease_fence_floor AS f WHERE f.store = p_store;
        IF p_token < mark.token THEN
            RAISE EXCEPTION 'lease fence: stale token' USING ERRCODE = 'LF002', DETAIL = mark.token::text;
        END IF;
    END IF;
END $lease$;

-- For a write without a lease: refuses where there is a mark. It makes one and takes it away again, so that whoever is to raise
-- the first one waits for the end of this transaction; and where one was raised since this transaction began, which it may
-- not see, it fails.
CREATE OR REPLACE FUNCTION {schema}.lease_fence_unfenced_1(p_store text, p_resource bytea, p_slot bigint)
RETURNS void LANGUAGE plpgsql AS $lease$
DECLARE
    own text := current_setting('lock_timeout');
    waits_longer boolean := own = '0' OR own::interval > interval '5 seconds';
    seen bigint;
    written xid;
BEGIN
    IF waits_longer THEN
        PERFORM set_config('lock_timeout', '5s', true);
    END IF;
    LOOP
        INSERT INTO {schema}.lease_fence AS m VALUES (p_store, p_resource, p_slot, 0, 0, 0) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT m.token INTO seen FROM {schema}.lease_fence AS m
        WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot;
        -- One that was there a moment ago may have been removed.
        IF FOUND THEN
            RAISE EXCEPTION 'lease fence: fenced' USING ERRCODE = 'LF007', DETAIL = seen::text;
        END IF;
    END LOOP;
    SELECT m.xmin INTO written FROM {schema}.lease_fence AS m
    WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot;
    IF written <> pg_current_xact_id()::xid THEN
        RAISE EXCEPTION 'lease fence: inside a savepoint' USING ERRCODE = 'LF004';
    END IF;
    DELETE FROM {schema}.lease_fence AS m
    WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot;
    IF waits_longer THEN
        PERFORM set_config('lock_timeout', own, true);
    END IF;
END $lease$;
