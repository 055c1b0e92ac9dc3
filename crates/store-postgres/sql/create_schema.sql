-- The schema and the table of what was applied to it. The name was set when the connection was made.
DO $$
BEGIN
    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', current_setting('hapax.schema'));
END
$$;
CREATE TABLE IF NOT EXISTS schema_versions (
    version        int4 PRIMARY KEY,
    oldest_program int4 NOT NULL, -- programs that know versions from this one on work with the tables
    applied_at     timestamptz NOT NULL DEFAULT now()
);
