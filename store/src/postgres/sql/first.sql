-- The first token of a name is above the clock. By one that nobody has set it would lie below those of a store that this
-- one replaces.
DO $lease$ BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.lease_store) THEN
        PERFORM {schema}.lease_set_clock_1();
    END IF;
END $lease$;

-- The two rows without which nothing is granted. Only a migrate writes them: a server that was wiped must not look new.
INSERT INTO {schema}.lease_floor (id, floor) VALUES (1, 0) ON CONFLICT DO NOTHING;
INSERT INTO {schema}.lease_store (id, version, usable_by, epoch, floor, grants_from, stamps_above, system_identifier,
    timeline)
SELECT 1, {version}, {usable_by}, drawn.epoch, 0, 0, 0, c.system_identifier, {schema}.lease_timeline_1()
FROM pg_control_system() AS c, (
    -- The first eight digits of such a number are random, unlike some of the later ones.
    SELECT ('x' || left(gen_random_uuid()::text, 8) || left(gen_random_uuid()::text, 8))::bit(64)::bigint AS epoch
) AS drawn
WHERE NOT EXISTS (SELECT FROM {schema}.lease_store)
ON CONFLICT DO NOTHING;
