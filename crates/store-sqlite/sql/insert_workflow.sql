INSERT INTO hapax_workflows (name) VALUES (?1) RETURNING id
