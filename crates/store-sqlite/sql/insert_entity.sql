INSERT INTO hapax_entities (workspace, kind, id, status, version, created_at, updated_at, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)
