-- Gives one queue a partition of its own; on a queue that has one it changes nothing. Jobs of the queue that sit in the
-- DEFAULT partition move along, whatever their state.
--
-- The name of the table is a readable stub and a digest, since a queue's name may be longer than a table's and hold any
-- character; which queue it holds is told by its bound alone. Attaching needs the DEFAULT partition to itself for a moment,
-- and nobody writing through the parent: an INSERT that has chosen the DEFAULT partition and waits there would be refused by
-- it afterwards. Waiting for that in the lock's queue would stop everybody behind an open transaction that has enqueued, so
-- it asks briefly and again, and gives up after about 30 s. Copying is done before the lock, as it is the long part: what
-- changed meanwhile (seen by the row's xmin) is copied anew under it.
CREATE OR REPLACE FUNCTION stampeded_create_queue(p_queue text, p_unlogged boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = on
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_existing regclass;
    v_table    text;
    v_columns  text;
    v_deadline timestamptz := clock_timestamp() + interval '30 seconds';
    v_timeout  text := current_setting('lock_timeout');
BEGIN
    IF p_queue IS NULL OR p_queue = '' OR char_length(p_queue) > 255 THEN
        RAISE EXCEPTION 'a queue''s name has 1 to 255 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('stampeded_create_queue', 'stampeded_jobs'::regclass::oid::bigint));
    v_existing := stampeded_partition_of(p_queue);
    IF v_existing IS NOT NULL THEN
        IF p_unlogged <> ((SELECT relpersistence FROM pg_class WHERE oid = v_existing) = 'u') THEN
            RAISE NOTICE 'queue % already has a partition, which is %: nothing changed', quote_literal(p_queue),
                CASE WHEN p_unlogged THEN 'logged' ELSE 'unlogged' END;
        END IF;
        RETURN;
    END IF;

    v_table := 'stampeded_jobs_' || left(trim(BOTH '_' FROM regexp_replace(lower(p_queue), '[^a-z0-9]+', '_', 'g')), 20)
               || '_' || left(encode(sha256(convert_to(p_queue, 'UTF8')), 'hex'), 16);
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO v_columns
      FROM pg_attribute
     WHERE attrelid = 'stampeded_jobs'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '';

    EXECUTE format('CREATE %s TABLE %I (LIKE stampeded_jobs INCLUDING ALL, '
                   'CONSTRAINT stampeded_one_queue CHECK (queue = %L AND queue IS NOT NULL))',
                   CASE WHEN p_unlogged THEN 'UNLOGGED' END, v_table, p_queue);
    PERFORM stampeded_set_storage(v_table::regclass);
    CREATE TEMP TABLE stampeded_moved ON COMMIT DROP AS
        SELECT id, xmin::text AS version FROM stampeded_jobs_default WHERE queue = p_queue;
    EXECUTE format('INSERT INTO %I (%s) SELECT %s FROM stampeded_jobs_default JOIN stampeded_moved m USING (id) '
                   'WHERE queue = %L AND stampeded_jobs_default.xmin::text = m.version', v_table, v_columns, v_columns, p_queue);

    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            LOCK TABLE ONLY stampeded_jobs IN SHARE ROW EXCLUSIVE MODE;
            LOCK TABLE stampeded_jobs_default IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF clock_timestamp() > v_deadline THEN
                RAISE EXCEPTION 'queue % got no partition: a transaction that uses the jobs stays open; end it and try again',
                    quote_literal(p_queue) USING ERRCODE = 'lock_not_available';
            END IF;
            PERFORM pg_sleep(0.05 + random() * 0.1);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', v_timeout, true);

    EXECUTE format('DELETE FROM %I t USING stampeded_moved m WHERE m.id = t.id AND NOT EXISTS '
                   '(SELECT FROM stampeded_jobs_default d WHERE d.queue = %L AND d.id = m.id AND d.xmin::text = m.version)',
                   v_table, p_queue);
    EXECUTE format('INSERT INTO %1$I (%2$s) SELECT %2$s FROM stampeded_jobs_default d WHERE queue = %3$L '
                   'AND NOT EXISTS (SELECT FROM %1$I t WHERE t.id = d.id)', v_table, v_columns, p_queue);
    ALTER TABLE stampeded_jobs_default DISABLE TRIGGER USER;    -- a move is no deletion: the counts stay as they are
    DELETE FROM stampeded_jobs_default WHERE queue = p_queue;
    ALTER TABLE stampeded_jobs_default ENABLE TRIGGER USER;
    EXECUTE format('ALTER TABLE stampeded_jobs ATTACH PARTITION %I FOR VALUES IN (%L)', v_table, p_queue);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT stampeded_one_queue', v_table);     -- it has spared ATTACH a scan
    PERFORM stampeded_install_triggers(v_table::regclass);
    DROP TABLE stampeded_moved;
END $$;
