-- The tables. Names and texts are bytes, so that nothing is folded, trimmed or cut; an owner and an epoch are the bits of
-- an unsigned number. Instants are microseconds since 1970 by this server's clock, in UTC; so are lengths of time.

-- One row: what holds for all resources.
CREATE TABLE IF NOT EXISTS lease_store (
    id INT NOT NULL PRIMARY KEY,
    version INT NOT NULL,
    usable_by INT NOT NULL,
    epoch BIGINT NOT NULL,
    floor BIGINT NOT NULL,
    grants_from BIGINT NOT NULL,
    -- Stamps of ID time up to here may have been given out by a history that was lost.
    stamps_above BIGINT NOT NULL,
    server VARBINARY(255) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- One row: no token at or below this is issued for a name without a row. Its lock keeps prunes and first grants apart.
CREATE TABLE IF NOT EXISTS lease_floor (
    id INT NOT NULL PRIMARY KEY,
    floor BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_row (
    name VARBINARY(255) NOT NULL PRIMARY KEY,
    last_issued BIGINT NOT NULL,
    observed BIGINT NOT NULL,
    owner BIGINT,
    attempt BIGINT,
    token BIGINT,
    granted_at BIGINT,
    expires_at BIGINT,
    epoch BIGINT,
    retained TINYINT NOT NULL DEFAULT 0,
    label VARBINARY(1024),
    identity VARBINARY(1024),
    vacated_token BIGINT,
    vacated_owner BIGINT,
    vacated_how INT,
    renewed_at BIGINT,
    renewals BIGINT,
    holds BIGINT NOT NULL DEFAULT 0,
    -- Turned over by requests that change nothing else, so that their commits wait for the disk.
    told TINYINT NOT NULL DEFAULT 0
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_history (
    name VARBINARY(255) NOT NULL,
    token BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    label VARBINARY(1024),
    identity VARBINARY(1024),
    granted_at BIGINT NOT NULL,
    renewed_at BIGINT NOT NULL,
    renewals BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    outcome INT NOT NULL,
    result INT NOT NULL,
    reason VARBINARY(1024),
    PRIMARY KEY (name, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_good (
    name VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    label VARBINARY(1024),
    once VARBINARY(1024),
    at BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_done (
    name VARBINARY(255) NOT NULL,
    once VARBINARY(1024) NOT NULL,
    token BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    label VARBINARY(1024),
    at BIGINT NOT NULL,
    PRIMARY KEY (name, once)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_withdrawn (
    name VARBINARY(255) NOT NULL,
    owner BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (name, owner)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
