-- The elements of an array of rows, one by one. To the planner it is always one: told how many there are, and nothing of the
-- table, it would rather read that through than go to each row.
CREATE OR REPLACE FUNCTION stampeded_each_row(p_rows tid[]) RETURNS SETOF tid
LANGUAGE sql STABLE ROWS 1
SET search_path FROM CURRENT
AS $$
    SELECT unnest(p_rows)
$$;
