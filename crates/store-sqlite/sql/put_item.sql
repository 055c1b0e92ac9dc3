INSERT INTO hapax_items (kind, id, workspace, name, version, body, created_at, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (kind, id) DO UPDATE
SET name = excluded.name, version = excluded.version, body = excluded.body, changed_at = excluded.changed_at
