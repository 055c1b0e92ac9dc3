INSERT INTO items (kind, id, workspace, name, version, body, created_at, changed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
