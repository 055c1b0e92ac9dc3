-- One that is there already is left as it is.
INSERT INTO hapax_posts (workspace, id, run, target, created_at, attempts, status, at, owner, failure, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (workspace, id) DO NOTHING
