INSERT INTO hapax_hooks (workspace, source, event, received_at, changed_at, duplicates, attempts, status, headers, body)
VALUES (?1, ?2, ?3, ?4, ?4, 0, 0, 0, ?5, ?6)
