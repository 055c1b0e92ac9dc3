-- One that somebody else has made meanwhile breaks the primary key, and the whole is tried again.
INSERT INTO promises (workspace, id, run, deadline_at, status, settled_at, value, key, keep_key_for_ms, created_at, create_key,
    about, complete_key, said, token)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
