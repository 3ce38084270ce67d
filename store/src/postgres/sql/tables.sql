-- The tables. Names, owners and epochs: a name is its bytes, an owner and an epoch are the bits of an unsigned number.
-- Instants are microseconds since 1970 by this server's clock, in UTC; so are lengths of time.
CREATE SCHEMA IF NOT EXISTS {schema};

-- One row: what holds for all resources.
CREATE TABLE IF NOT EXISTS {schema}.lease_store (
    id integer PRIMARY KEY CHECK (id = 1),
    version integer NOT NULL,
    usable_by integer NOT NULL,
    epoch bigint NOT NULL,
    floor bigint NOT NULL,
    grants_from bigint NOT NULL,
    -- Stamps of ID time up to here may have been given out by a history that was lost.
    stamps_above bigint NOT NULL,
    system_identifier bigint NOT NULL,
    timeline integer NOT NULL
);

-- One row: no token at or below this is issued for a name without a row. Its lock keeps prunes and first grants apart.
CREATE TABLE IF NOT EXISTS {schema}.lease_floor (
    id integer PRIMARY KEY CHECK (id = 1),
    floor bigint NOT NULL
);

-- Half of each page stays free, so that a decision finds room beside the version that it replaces and touches no index.
CREATE TABLE IF NOT EXISTS {schema}.lease_row (
    name bytea PRIMARY KEY,
    last_issued bigint NOT NULL,
    observed bigint NOT NULL,
    owner bigint,
    attempt bigint,
    token bigint,
    granted_at bigint,
    expires_at bigint,
    epoch bigint,
    retained boolean NOT NULL DEFAULT false,
    label text,
    identity text,
    vacated_token bigint,
    vacated_owner bigint,
    vacated_how integer,
    renewed_at bigint,
    renewals bigint,
    slot integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Holds that have ended. A resource has so many places for them as holds are kept, and the next one takes the place of the
-- oldest: nothing has to be deleted, and no index entry be made. `lease_row.slot` is the place of the hold that goes on.
CREATE TABLE IF NOT EXISTS {schema}.lease_history (
    name bytea NOT NULL,
    slot integer NOT NULL,
    token bigint NOT NULL,
    owner bigint NOT NULL,
    label text,
    identity text,
    granted_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    renewals bigint NOT NULL,
    ends_at bigint NOT NULL,
    outcome integer NOT NULL,
    result integer NOT NULL,
    reason text,
    PRIMARY KEY (name, slot)
) WITH (fillfactor = 80);

CREATE TABLE IF NOT EXISTS {schema}.lease_good (
    name bytea PRIMARY KEY,
    token bigint NOT NULL,
    owner bigint NOT NULL,
    label text,
    once text COLLATE "C",
    at bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS {schema}.lease_done (
    name bytea NOT NULL,
    once text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    owner bigint NOT NULL,
    label text,
    at bigint NOT NULL,
    PRIMARY KEY (name, once)
);

CREATE TABLE IF NOT EXISTS {schema}.lease_withdrawn (
    name bytea NOT NULL,
    owner bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (name, owner)
);
