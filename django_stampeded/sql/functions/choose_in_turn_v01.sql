-- Chooses up to p_limit due jobs of a queue unit by unit, as fair shares want it always, and limits where they hold back what
-- comes first. What it reads is bounded by p_limit, however many jobs are held back: units are hopped to, from where the last
-- claim stopped, and so are the jobs without any key, which only the claim index has. Where a unit has too little, it looks
-- deeper into the others; where all have, farther for jobs without a key.
CREATE OR REPLACE FUNCTION stampeded_choose_in_turn(p_queue text, p_limit bigint, p_now timestamptz, p_fair boolean,
                                                    p_running jsonb, p_skip uuid[]) RETURNS uuid[]
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    v_most    bigint := p_limit + 100;
    v_walk    bigint := p_limit + 100;
    v_each    bigint;
    v_turn    stampeded_turns;
    v_next    stampeded_turns;
    v_from    bigint;
    v_units   jsonb;
    v_ids     uuid[];
    v_tenants text[];
    v_keyless uuid[];
    v_chosen  uuid[];
BEGIN
    SELECT * INTO v_turn FROM stampeded_turns WHERE queue = p_queue;
    v_next := v_turn;
    v_from := CASE WHEN p_fair THEN 9223372036854775807 ELSE v_turn.grp END;
    v_units := (SELECT coalesce(jsonb_agg(to_jsonb(u)), '[]')
                  FROM stampeded_units(p_queue, p_now, v_turn.tenant, v_from, v_most, p_running) u);
    IF v_turn.tenant IS NOT NULL AND jsonb_array_length(v_units) < v_most THEN
        v_units := v_units || (SELECT coalesce(jsonb_agg(to_jsonb(u)), '[]')
                                 FROM stampeded_units(p_queue, p_now, NULL, NULL, v_most - jsonb_array_length(v_units), p_running) u
                                WHERE (u.tenant, u.grp) <= (v_turn.tenant, v_from));
    END IF;
    v_each := greatest(p_limit / greatest(jsonb_array_length(v_units), 1), 1);
    LOOP
        SELECT coalesce(array_agg(c.id), '{}'), array_agg(c.tenant),
               array_agg(c.id) FILTER (WHERE num_nonnulls(c.tenant, c.destination, c.limit_key) = 0),
               stampeded_fit(p_queue, p_limit, p_running, array_agg(c.id), array_agg(c.tenant), array_agg(c.destination),
                             array_agg(c.limit_key))
          INTO v_ids, v_tenants, v_keyless, v_chosen
          FROM stampeded_candidates(p_queue, p_now, p_fair, v_units, v_each, v_turn, v_walk, p_skip) c;
        EXIT WHEN cardinality(v_chosen) = p_limit OR v_each >= p_limit AND v_walk >= 5000;
        v_each := v_each * 4;
        v_walk := greatest(v_walk, 5000);
    END LOOP;

    IF jsonb_array_length(v_units) >= v_most OR (v_units -> -1 ->> 'may')::boolean IS FALSE THEN
        v_next.tenant := v_units -> -1 ->> 'tenant';
        v_next.grp := (v_units -> -1 ->> 'grp')::bigint;
    ELSIF NOT p_fair THEN
        v_next.tenant := NULL;
    END IF;
    IF p_fair AND cardinality(v_chosen) = p_limit THEN
        v_next.tenant := coalesce(v_tenants[array_position(v_ids, v_chosen[p_limit])], '');
    END IF;
    IF v_keyless IS NULL OR v_keyless <@ v_chosen THEN
        SELECT NULL, NULL, NULL INTO v_next.walked, v_next.walked_at, v_next.walked_id;
        SELECT priority, scheduled_at, id INTO v_next.walked, v_next.walked_at, v_next.walked_id FROM stampeded_jobs
         WHERE queue = p_queue AND state IN ('available', 'retryable') AND scheduled_at <= p_now
           AND (v_turn.walked IS NULL OR (priority, scheduled_at, id) > (v_turn.walked, v_turn.walked_at, v_turn.walked_id))
         ORDER BY priority, scheduled_at, id OFFSET v_walk - 1 LIMIT 1;
    END IF;
    IF v_next IS DISTINCT FROM v_turn THEN
        INSERT INTO stampeded_turns VALUES (p_queue, v_next.tenant, v_next.grp, v_next.walked, v_next.walked_at, v_next.walked_id)
        ON CONFLICT (queue) DO UPDATE
           SET tenant = excluded.tenant, grp = excluded.grp, walked = excluded.walked, walked_at = excluded.walked_at,
               walked_id = excluded.walked_id;
    END IF;
    RETURN v_chosen;
END $$;
