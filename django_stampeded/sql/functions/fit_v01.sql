-- Those of the jobs given (by four arrays, in the order in which they should start) that may start together under the limits of
-- their keys, at most p_limit; all are judged by what is running, p_running, and by those chosen before them.
CREATE OR REPLACE FUNCTION stampeded_fit(p_queue text, p_limit bigint, p_running jsonb, p_ids uuid[], p_tenants text[],
                                         p_destinations text[], p_keys text[]) RETURNS uuid[]
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    v_scopes text[] := ARRAY['tenant', 'destination', 'key'];
    v_names  text[];
    v_room   jsonb := '{}';
    v_chosen uuid[] := '{}';
BEGIN
    IF p_running IS NULL OR p_ids IS NULL THEN
        RETURN coalesce(p_ids[:p_limit], '{}');
    END IF;
    FOR i IN 1 .. cardinality(p_ids) LOOP
        EXIT WHEN cardinality(v_chosen) >= p_limit;
        v_names := ARRAY['tenant:' || p_tenants[i], 'destination:' || p_destinations[i], 'key:' || p_keys[i]];
        FOR k IN 1 .. 3 LOOP
            IF v_names[k] IS NOT NULL AND NOT v_room ? v_names[k] THEN
                v_room := v_room || jsonb_build_object(v_names[k], stampeded_key_room(
                    p_queue, v_scopes[k], (ARRAY[p_tenants[i], p_destinations[i], p_keys[i]])[k], p_running));
            END IF;
        END LOOP;
        CONTINUE WHEN least((v_room ->> v_names[1])::bigint, (v_room ->> v_names[2])::bigint, (v_room ->> v_names[3])::bigint) <= 0;
        v_chosen := v_chosen || p_ids[i];
        FOR k IN 1 .. 3 LOOP
            IF v_room ->> v_names[k] IS NOT NULL THEN
                v_room := v_room || jsonb_build_object(v_names[k], (v_room ->> v_names[k])::bigint - 1);
            END IF;
        END LOOP;
    END LOOP;
    RETURN v_chosen;
END $$;
