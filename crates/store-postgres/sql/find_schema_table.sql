SELECT to_regclass(format('%I.schema_versions', current_setting('hapax.schema'))) IS NOT NULL
