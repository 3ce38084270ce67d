//! The table of marks. Its triggers are the judges, so that plain SQL of any driver is held to the same rules.

/// `INSERT … ON CONFLICT DO UPDATE` fires the insert's trigger whether or not the mark is there, so that one judges every
/// pass; the one on updates keeps a mark from being lowered in any other way. `RAISE` takes a literal, hence no numbers.
pub(super) const SET_UP: &str = "
CREATE TABLE IF NOT EXISTS lease_fence (
    store TEXT NOT NULL CHECK (typeof(store) = 'text'),
    resource TEXT NOT NULL CHECK (typeof(resource) = 'text'),
    slot INTEGER NOT NULL CHECK (typeof(slot) = 'integer'),
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer'),
    owner INTEGER NOT NULL CHECK (typeof(owner) = 'integer'),
    at INTEGER NOT NULL,
    writes INTEGER NOT NULL,
    resets INTEGER NOT NULL,
    PRIMARY KEY (store, resource, slot)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease_fence_floor (
    store TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease_fence_log (
    at INTEGER NOT NULL,
    store TEXT NOT NULL,
    resource TEXT NOT NULL,
    slot INTEGER NOT NULL,
    was INTEGER NOT NULL,
    becomes INTEGER,
    reason TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS lease_fence_lowered BEFORE UPDATE ON lease_fence
WHEN NEW.token < OLD.token AND NEW.resets = OLD.resets
BEGIN SELECT RAISE(ABORT, 'lease fence: stale token'); END;
CREATE TRIGGER IF NOT EXISTS lease_fence_pass BEFORE INSERT ON lease_fence BEGIN
    SELECT RAISE(ABORT, 'lease fence: token out of range')
    WHERE NEW.token < 1 OR NEW.token > (CAST(strftime('%s', 'now') AS INTEGER) + 31536000) * 1000000;
    SELECT RAISE(ABORT, 'lease fence: stale token')
    WHERE NEW.token < coalesce(
        (SELECT token FROM lease_fence WHERE store = NEW.store AND resource = NEW.resource AND slot = NEW.slot),
        (SELECT token FROM lease_fence_floor WHERE store = NEW.store));
    SELECT RAISE(ABORT, 'lease fence: rewound') FROM lease_fence AS mark
    WHERE mark.store = NEW.store AND mark.resource = NEW.resource AND mark.slot = NEW.slot
        AND mark.token = NEW.token AND mark.owner <> NEW.owner AND mark.owner <> 0;
END;
";

/// Writes the mark, also where it does not rise: the write is what makes two guarded transactions follow each other.
pub(super) const GUARD: &str =
    "INSERT INTO lease_fence (store, resource, slot, token, owner, at, writes, resets)
VALUES (:store, :resource, :slot, :token, :owner, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, 1, 0)
ON CONFLICT (store, resource, slot) DO UPDATE
SET token = excluded.token, owner = excluded.owner, at = excluded.at, writes = writes + 1";
