INSERT INTO hapax_workspaces (name) VALUES (?1) RETURNING id
