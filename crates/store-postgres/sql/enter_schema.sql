-- Until the transaction ends: our tables and no others, by the plans that connect.rs tells of. Answers which transaction it is.
SELECT pg_current_xact_id()::text,
    set_config('search_path', $1, true),
    set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('seq_page_cost', '0.01', true),
    set_config('random_page_cost', '0.01', true),
    set_config('jit', 'off', true)
