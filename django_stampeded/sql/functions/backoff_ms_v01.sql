-- Exponential back-off with full jitter, in milliseconds: uniform in [0, min(p_max_ms, p_base_ms * 2^(p_n - 1))]. After
-- Marc Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015). The shift stops where every base has passed
-- every cap, so no attempt overflows.
CREATE OR REPLACE FUNCTION stampeded_backoff_ms(p_n bigint, p_base_ms bigint, p_max_ms bigint) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN floor(random() * (least(p_max_ms, p_base_ms << least(greatest(p_n - 1, 0), 31)::integer) + 1))::bigint;
