-- The marks of fences, in the database whose writes they guard. A token is judged where the mark is written, in the
-- transaction of the write, so that plain SQL of any driver is held to the same rules.
CREATE TABLE IF NOT EXISTS lease_fence (
    store VARBINARY(255) NOT NULL,
    resource VARBINARY(255) NOT NULL,
    slot BIGINT NOT NULL,
    token BIGINT NOT NULL,
    owner BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (store, resource, slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_fence_floor (
    store VARBINARY(255) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
CREATE TABLE IF NOT EXISTS lease_fence_log (
    at BIGINT NOT NULL,
    store VARBINARY(255) NOT NULL,
    resource VARBINARY(255) NOT NULL,
    slot BIGINT NOT NULL,
    was BIGINT NOT NULL,
    becomes BIGINT,
    reason VARBINARY(1024) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Writes the mark, also where it does not rise: that is what makes two guarded transactions follow each other. Everything is
-- read under a lock, and so is the latest there is, at every isolation level. It waits for 5 s at most.
DROP PROCEDURE IF EXISTS lease_fence_pass_1
//
CREATE PROCEDURE lease_fence_pass_1(
    p_store VARBINARY(255), p_resource VARBINARY(255), p_slot BIGINT, p_token BIGINT, p_owner BIGINT
) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE wall BIGINT DEFAULT {clock};
    DECLARE m_token, m_owner, lowest BIGINT DEFAULT 0;
    DECLARE told VARCHAR(128) CHARACTER SET ascii;
    DECLARE patience BIGINT UNSIGNED DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE at_most BIGINT UNSIGNED DEFAULT 5;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
        SET SESSION innodb_lock_wait_timeout = patience;
        RESIGNAL;
    END;
    {in_transaction}
    IF p_token < 1 OR p_token > wall + 31536000000000 THEN
        SIGNAL SQLSTATE 'LF001' SET MYSQL_ERRNO = 45101, MESSAGE_TEXT = 'lease fence: token out of range';
    END IF;
    {wait_at_most}
    INSERT INTO lease_fence VALUES (p_store, p_resource, p_slot, 0, 0, wall) ON DUPLICATE KEY UPDATE at = wall;
    SELECT m.token, m.owner INTO m_token, m_owner FROM lease_fence AS m
    WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot FOR UPDATE;
    -- One that was not there may have been pruned. After the write: one that is being pruned has raised the floor by then.
    IF m_token = 0 THEN
        SELECT f.token INTO lowest FROM lease_fence_floor AS f WHERE f.store = p_store LOCK IN SHARE MODE;
    END IF;
    SET SESSION innodb_lock_wait_timeout = patience;
    IF p_token < GREATEST(m_token, lowest) THEN
        SET told = CONCAT('lease fence: stale token, the highest seen is ', GREATEST(m_token, lowest));
        SIGNAL SQLSTATE 'LF002' SET MYSQL_ERRNO = 45102, MESSAGE_TEXT = told;
    END IF;
    IF p_token = m_token AND m_owner NOT IN (p_owner, 0) THEN
        SET told = CONCAT('lease fence: rewound, first shown by ', m_owner);
        SIGNAL SQLSTATE 'LF003' SET MYSQL_ERRNO = 45103, MESSAGE_TEXT = told;
    END IF;
    UPDATE lease_fence SET token = p_token, owner = p_owner
    WHERE store = p_store AND resource = p_resource AND slot = p_slot;
END
//
-- For a write without a lease: refuses where there is a mark. It makes one and takes it away again, so that whoever is to raise
-- the first one waits for the end of this transaction. A look would not do: at READ COMMITTED nothing is locked by it where
-- there is no row.
DROP PROCEDURE IF EXISTS lease_fence_unfenced_1
//
CREATE PROCEDURE lease_fence_unfenced_1(p_store VARBINARY(255), p_resource VARBINARY(255), p_slot BIGINT)
    {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE is_new BOOLEAN DEFAULT TRUE;
    DECLARE seen BIGINT;
    DECLARE told VARCHAR(128) CHARACTER SET ascii;
    DECLARE patience BIGINT UNSIGNED DEFAULT @@SESSION.innodb_lock_wait_timeout;
    DECLARE at_most BIGINT UNSIGNED DEFAULT 5;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
        SET SESSION innodb_lock_wait_timeout = patience;
        RESIGNAL;
    END;
    {in_transaction}
    {wait_at_most}
    BEGIN
        DECLARE CONTINUE HANDLER FOR 1062 SET is_new = FALSE;
        INSERT INTO lease_fence VALUES (p_store, p_resource, p_slot, 0, 0, 0);
    END;
    IF is_new THEN
        DELETE FROM lease_fence WHERE store = p_store AND resource = p_resource AND slot = p_slot;
    ELSE
        SELECT m.token INTO seen FROM lease_fence AS m
        WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot LOCK IN SHARE MODE;
        SET told = CONCAT('lease fence: fenced, the token seen is ', seen);
        SIGNAL SQLSTATE 'LF007' SET MYSQL_ERRNO = 45107, MESSAGE_TEXT = told;
    END IF;
    SET SESSION innodb_lock_wait_timeout = patience;
END
//
-- Sets a mark back, or removes it, and writes that down.
DROP PROCEDURE IF EXISTS lease_fence_reset_1
//
CREATE PROCEDURE lease_fence_reset_1(
    p_store VARBINARY(255), p_resource VARBINARY(255), p_slot BIGINT, p_token BIGINT, p_reason VARBINARY(1024)
) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE was BIGINT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    START TRANSACTION;
    SELECT m.token INTO was FROM lease_fence AS m
    WHERE m.store = p_store AND m.resource = p_resource AND m.slot = p_slot FOR UPDATE;
    IF was IS NOT NULL THEN
        INSERT INTO lease_fence_log VALUES ({clock}, p_store, p_resource, p_slot, was, p_token, p_reason);
        IF p_token IS NULL THEN
            DELETE FROM lease_fence WHERE store = p_store AND resource = p_resource AND slot = p_slot;
        ELSE
            UPDATE lease_fence SET token = p_token, owner = 0
            WHERE store = p_store AND resource = p_resource AND slot = p_slot;
        END IF;
    END IF;
    COMMIT;
END
//
-- Forgets marks that nobody has written for so long, and that are not ahead of the clock; the floor of their store is
-- raised first.
DROP PROCEDURE IF EXISTS lease_fence_prune_1
//
CREATE PROCEDURE lease_fence_prune_1(p_older BIGINT) {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE wall BIGINT DEFAULT {clock};
    DECLARE gone BIGINT DEFAULT 0;
    DECLARE done BOOLEAN DEFAULT FALSE;
    DECLARE o_store, o_resource VARBINARY(255);
    DECLARE o_slot, o_token BIGINT;
    DECLARE forgotten CURSOR FOR
        SELECT m.store, m.resource, m.slot, m.token FROM lease_fence AS m
        WHERE m.at <= wall - p_older AND m.token <= wall FOR UPDATE SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
        ROLLBACK;
        RESIGNAL;
    END;
    START TRANSACTION;
    OPEN forgotten;
    each_mark: LOOP
        FETCH forgotten INTO o_store, o_resource, o_slot, o_token;
        IF done THEN
            LEAVE each_mark;
        END IF;
        INSERT INTO lease_fence_floor VALUES (o_store, o_token) ON DUPLICATE KEY UPDATE token = GREATEST(token, o_token);
        DELETE FROM lease_fence WHERE store = o_store AND resource = o_resource AND slot = o_slot;
        SET gone = gone + 1;
    END LOOP;
    CLOSE forgotten;
    COMMIT;
    SELECT gone;
END
//
