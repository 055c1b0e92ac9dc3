INSERT INTO workspaces (name) VALUES (?1) RETURNING id
