INSERT INTO schema_versions (version, oldest_program) VALUES ($1, $2)
