SELECT 1 FROM sqlite_schema LIMIT 1
