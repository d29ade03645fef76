-- The queues that a partition holds, under their true names; null for the DEFAULT partition. The catalog keeps them as SQL
-- text of its own quoting, and evaluating that text is the one reading that survives every name.
CREATE OR REPLACE FUNCTION stampeded_partition_queues(p_partition regclass) RETURNS text[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_list   text := substring(pg_get_expr((SELECT relpartbound FROM pg_class WHERE oid = p_partition), p_partition)
                               FROM '^FOR VALUES IN \((.*)\)$');
    v_queues text[];
BEGIN
    IF v_list IS NOT NULL THEN
        EXECUTE format('SELECT ARRAY[%s]::text[]', v_list) INTO v_queues;
    END IF;
    RETURN v_queues;
END $$;
