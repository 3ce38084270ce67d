-- The two rows without which nothing is granted. Only a migrate writes them: a server that was wiped must not look new.
DROP PROCEDURE IF EXISTS lease_set_up_1
//
CREATE PROCEDURE lease_set_up_1() {invoker} MODIFIES SQL DATA
BEGIN
    DECLARE wall BIGINT DEFAULT {clock};
    DECLARE there INT DEFAULT 0;
    SELECT COUNT(*) INTO there FROM lease_store AS s WHERE s.id = 1;
    IF there = 0 THEN
        {clock_set}
        INSERT INTO lease_floor (id, floor) VALUES (1, 0) ON DUPLICATE KEY UPDATE id = 1;
        INSERT INTO lease_store (id, version, usable_by, epoch, floor, grants_from, stamps_above, server)
        VALUES (1, {version}, {usable_by}, CAST(CAST(CONV(LEFT(SHA2(CONCAT(UUID(), RAND(), RAND(), SYSDATE(6)), 256), 16), 16,
            10) AS UNSIGNED) AS SIGNED), 0, 0, 0, {server})
        ON DUPLICATE KEY UPDATE id = 1;
    END IF;
END
//
CALL lease_set_up_1()
//
-- Which revision the procedures are of, for whoever connects. It is the last, so that all the others are there before.
DROP PROCEDURE IF EXISTS lease_revision_1
//
CREATE PROCEDURE lease_revision_1() {invoker} NO SQL
SELECT {revision} AS revision
//
