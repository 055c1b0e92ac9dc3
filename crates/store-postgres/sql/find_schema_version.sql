-- The version of the tables, and the oldest program that works with them; 0 if nothing was applied.
SELECT coalesce(max(version), 0), coalesce(max(oldest_program), 0) FROM schema_versions
