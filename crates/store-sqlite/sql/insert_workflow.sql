INSERT INTO workflows (name) VALUES (?1) RETURNING id
