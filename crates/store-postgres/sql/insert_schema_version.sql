INSERT INTO schema_versions (version) VALUES ($1)
