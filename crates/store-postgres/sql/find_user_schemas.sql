-- Where names without a schema are looked for by user code.
SELECT current_schemas(false)::text[]
