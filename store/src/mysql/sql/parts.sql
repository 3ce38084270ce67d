-- Parts of the routines that several of them have, by name.

-- part row
    DECLARE r_last, r_observed, r_owner, r_attempt, r_token, r_granted_at, r_expires_at, r_epoch, r_vacated_token,
        r_vacated_owner, r_renewed_at, r_renewals, r_holds BIGINT;
    DECLARE r_label, r_identity VARBINARY(1024);
    DECLARE r_retained, r_vacated_how INT DEFAULT 0;

-- part state
    DECLARE s_epoch, s_floor, s_grants_from, s_stamps_above, wall, seen, pruned, trim_at BIGINT;
    DECLARE s_here, wrote BOOLEAN DEFAULT FALSE;
    DECLARE code VARCHAR(20) CHARACTER SET ascii;
    DECLARE a_token, a_remaining, a_believed BIGINT;
    DECLARE a_rewound BOOLEAN DEFAULT FALSE;
    DECLARE h_ended BIGINT;
    DECLARE h_how, h_result INT DEFAULT 0;
    DECLARE h_reason VARBINARY(1024);

-- part undone
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
        ROLLBACK;
        RESIGNAL;
    END;

-- part row_of_name
    SELECT t.last_issued, t.observed, t.owner, t.attempt, t.token, t.granted_at, t.expires_at, t.epoch, t.retained, t.label,
        t.identity, t.vacated_token, t.vacated_owner, t.vacated_how, t.renewed_at, t.renewals, t.holds
    INTO r_last, r_observed, r_owner, r_attempt, r_token, r_granted_at, r_expires_at, r_epoch, r_retained, r_label,
        r_identity, r_vacated_token, r_vacated_owner, r_vacated_how, r_renewed_at, r_renewals, r_holds
    FROM lease_row AS t WHERE t.name = p_name FOR UPDATE

-- part lock
    {row_of_name};

-- part lock_now
    {row_of_name} SKIP LOCKED;

-- part lock_or_make
    {lock}
    IF r_last IS NULL THEN
        -- Somebody else may have made it meanwhile, and is waited for here.
        INSERT INTO lease_row (name, last_issued, observed) VALUES (p_name, 0, 0) ON DUPLICATE KEY UPDATE name = p_name;
        {lock}
    END IF;
    IF r_last = 0 THEN
        -- Held to the commit: a prune that raises the floor comes before this grant or after it, never in its middle.
        SELECT f.floor INTO pruned FROM lease_floor AS f WHERE f.id = 1 LOCK IN SHARE MODE;
    END IF;

-- part look
    SELECT s.epoch, s.floor, s.grants_from, s.stamps_above, s.server = {server}, {clock}
    INTO s_epoch, s_floor, s_grants_from, s_stamps_above, s_here, wall FROM lease_store AS s WHERE s.id = 1;
    IF s_epoch IS NULL THEN
        SIGNAL SQLSTATE 'LM002' SET MESSAGE_TEXT = 'the store has no epoch', MYSQL_ERRNO = 45002;
    END IF;
    SET seen = GREATEST(wall, COALESCE(r_observed, 0));

-- part last
        -- The next token is greater.
        SET a_token = GREATEST(IF(r_last > 0, r_last, GREATEST(wall, pruned)), s_floor);

-- part usable
    -- Whether the caller's lease may be looked at at all, and whether its token shows that history was lost.
    IF NOT s_here THEN
        SET code = 'lost';
    ELSEIF p_epoch <> s_epoch THEN
        SET code = 'new epoch', a_believed = p_epoch;
    ELSEIF r_token = p_token AND r_owner = p_owner AND r_epoch <> s_epoch THEN
        -- Also for a caller who does not say which one it believes in.
        SET code = 'new epoch', a_believed = r_epoch;
    ELSEIF p_epoch IS NOT NULL AND p_token > GREATEST(COALESCE(r_last, 0), s_floor) AND p_token <= wall + 31536000000000 THEN
        -- Owners are drawn for every hold: one that is shown under another name was not lost.
        SET a_rewound = p_token > (SELECT f.floor FROM lease_floor AS f WHERE f.id = 1)
            AND NOT EXISTS (SELECT 1 FROM lease_row AS t WHERE t.owner = p_owner AND t.token = p_token)
            AND NOT EXISTS (SELECT 1 FROM lease_row AS t WHERE t.vacated_owner = p_owner AND t.vacated_token = p_token)
            AND NOT EXISTS (
                SELECT 1 FROM lease_slot AS t WHERE (t.owner = p_owner AND t.token = p_token)
                OR (t.vacated_owner = p_owner AND t.vacated_token = p_token));
    END IF;

-- part remember
    -- Adds the hold that has ended, unless its end is told already, and now and then forgets the oldest beyond `keep`. The
    -- outcomes and results are numbered as in the program.
    IF h_how > 0 AND p_keep > 0 AND r_token IS NOT NULL AND NOT r_retained THEN
        INSERT INTO lease_history VALUES (
            p_name, r_token, r_owner, r_label, r_identity, r_granted_at, r_renewed_at, r_renewals, h_ended, h_how, h_result,
            h_reason
        ) ON DUPLICATE KEY UPDATE name = p_name;
        IF r_holds % 16 = 0 THEN
            SELECT h.token INTO trim_at FROM lease_history AS h WHERE h.name = p_name ORDER BY h.token DESC LIMIT p_keep, 1;
            DELETE FROM lease_history WHERE name = p_name AND token <= trim_at;
        END IF;
    END IF;

-- part expired
        -- The answer says that the lease is over: that has to stay so.
        SET wrote = TRUE, h_how = 2, h_ended = r_expires_at;
        UPDATE lease_row SET observed = seen, told = 1 - told WHERE name = p_name;

-- part end
    -- Whatever is told has to be on the disk, also where this request changed nothing: without a binary log InnoDB shows a
    -- commit to others before it has been flushed, and what they are told of would be gone after a crash. A commit of one's
    -- own waits for all that came before it. A resource without a row has nothing to tell.
    IF NOT wrote AND r_last > 0 AND NOT (@@log_bin AND @@sync_binlog = 1) THEN
        SET wrote = TRUE;
        UPDATE lease_row SET told = 1 - told WHERE name = p_name;
    END IF;
    IF wrote THEN
        COMMIT;
    ELSE
        ROLLBACK;
    END IF;

-- part answer
    -- Every column is described anew in each answer: what needs few has few.
    IF code IN ('renewed', 'released') THEN
        SELECT code, s_epoch AS epoch, a_token AS token, a_remaining AS remaining, a_rewound AS rewound;
    ELSE
        SELECT code, s_epoch AS epoch, seen, a_token AS token, a_remaining AS remaining, a_believed AS believed,
            a_rewound AS rewound, r_token AS held_token, r_owner AS held_owner, r_granted_at AS granted_at,
            r_expires_at AS expires_at, r_retained AS retained, r_label AS label, r_identity AS identity,
            r_vacated_token AS vacated_token, r_vacated_owner AS vacated_owner, r_vacated_how AS vacated_how;
    END IF;

-- part renewing
    {look}
    {usable}
    IF code IS NOT NULL THEN
        SET wrote = FALSE;
    ELSEIF r_retained AND r_token = p_token AND p_ttl > 0 THEN
        -- It was released; nothing extends it, whatever was in flight.
        SET code = 'vacant';
    ELSEIF p_ttl <= 0 THEN
        SET code = 'invalid ttl';
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
        SET code = 'renewed', wrote = TRUE, a_token = p_token, a_remaining = GREATEST(p_ttl, r_expires_at - seen);
        UPDATE lease_row SET
            observed = seen, expires_at = seen + a_remaining, renewed_at = seen, renewals = renewals + 1
        WHERE name = p_name;
    END IF;
    {remember}
    {end}
    {answer}

-- part asked
        JSON_TABLE(p_asked, '$[*]' COLUMNS (
            n FOR ORDINALITY, name VARCHAR(510) PATH '$[0]', owner BIGINT PATH '$[1]', token BIGINT PATH '$[2]',
            ttl BIGINT PATH '$[3]', epoch BIGINT PATH '$[4]'
        )) AS j

-- part standing
        t.token = j.token AND t.owner = j.owner AND NOT t.retained AND j.ttl > 0 AND t.epoch = s_epoch
            AND (j.epoch IS NULL OR j.epoch = s_epoch)

-- part clock_set
        -- Tokens start at the clock: under one that was never set they would be those that others have had.
        IF wall < 1767225600000000 THEN
            SIGNAL SQLSTATE 'LM001' SET MESSAGE_TEXT = 'the clock of this server stands before 2026: no epoch is opened',
                MYSQL_ERRNO = 45001;
        END IF;

-- part slot_row
    {row}
    -- The name of its history.
    DECLARE p_name VARBINARY(262);
    DECLARE r_asker, r_mark, r_window_after BIGINT;
    DECLARE r_slot INT;

-- part slot_columns
        t.last_issued, t.observed, t.owner, t.attempt, t.token, t.granted_at, t.free_from, t.epoch, t.label, t.identity,
        t.vacated_token, t.vacated_owner, t.vacated_how, t.renewed_at, t.renewals, t.holds, t.slot, t.asker, t.mark,
        t.window_after
    INTO r_last, r_observed, r_owner, r_attempt, r_token, r_granted_at, r_expires_at, r_epoch, r_label, r_identity,
        r_vacated_token, r_vacated_owner, r_vacated_how, r_renewed_at, r_renewals, r_holds, r_slot, r_asker, r_mark,
        r_window_after

-- part slot_lock
    SET p_name = CONCAT(p_pool, '#', p_slot);
    SELECT {slot_columns} FROM lease_slot AS t WHERE t.pool = p_pool AND t.slot = p_slot
        AND EXISTS (SELECT 1 FROM lease_pool AS p WHERE p.pool = t.pool AND t.slot < p.size) FOR UPDATE;

-- part slot_last
        -- The next token is greater.
        SET a_token = GREATEST(IF(r_last > 0, r_last, wall), s_floor);

-- part slot_expired
        -- The answer says that the lease is over: that has to stay so.
        SET wrote = TRUE, h_how = 2, h_ended = r_expires_at;
        UPDATE lease_slot SET observed = seen, told = 1 - told WHERE pool = p_pool AND slot = r_slot;

-- part slot_end
    -- As every other request: whatever is told has to be on the disk.
    IF NOT wrote AND r_last > 0 AND NOT (@@log_bin AND @@sync_binlog = 1) THEN
        SET wrote = TRUE;
        UPDATE lease_slot SET told = 1 - told WHERE pool = p_pool AND slot = r_slot;
    END IF;
    IF wrote THEN
        COMMIT;
    ELSE
        ROLLBACK;
    END IF;

-- part able
        t.slot BETWEEN p_first AND last_slot AND t.last_issued < 9223372036854775807 AND (ends IS NULL OR t.mark < ends)

-- part in_transaction
    BEGIN
        DECLARE EXIT HANDLER FOR 1305
            SIGNAL SQLSTATE 'LF004' SET MYSQL_ERRNO = 45104, MESSAGE_TEXT = 'lease fence: outside of a transaction';
        -- Outside of a transaction there is none to give up.
        SAVEPOINT lease_fence_pass_1;
        RELEASE SAVEPOINT lease_fence_pass_1;
    END;

-- part wait_at_most
    IF patience < at_most THEN
        SET at_most = patience;
    END IF;
    SET SESSION innodb_lock_wait_timeout = at_most;

-- part able_by_now
        t.slot BETWEEN p_first AND last_slot AND t.last_issued < 9223372036854775807
                    AND (NOT p_id_time OR t.mark < {clock} + p_ttl)

-- part digits
        SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
        UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10 UNION ALL SELECT 11
        UNION ALL SELECT 12 UNION ALL SELECT 13 UNION ALL SELECT 14 UNION ALL SELECT 15
