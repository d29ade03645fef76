-- The indexes of the partitions, with how many entries a page holds on average by the last vacuum's figures: one of 128 pages
-- or more with fewer than 5 entries on each has grown sparse and wants REINDEX CONCURRENTLY. Invalid indexes, as an
-- interrupted one leaves behind, don't count.
CREATE OR REPLACE FUNCTION stampeded_index_density()
RETURNS TABLE (indexname text, pages bigint, entries bigint, per_page double precision, sparse boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH indexes AS (
        SELECT c.relname::text AS indexname,
               pg_relation_size(c.oid) / current_setting('block_size')::bigint AS pages,
               greatest(c.reltuples, 0)::bigint AS entries
          FROM pg_inherits i
          JOIN pg_index x ON x.indrelid = i.inhrelid
          JOIN pg_class c ON c.oid = x.indexrelid
         WHERE i.inhparent = 'stampeded_jobs'::regclass AND x.indisvalid
    )
    SELECT indexname, pages, entries, entries::float8 / greatest(pages, 1), pages >= 128 AND entries < 5 * pages
      FROM indexes ORDER BY indexname
$$;
