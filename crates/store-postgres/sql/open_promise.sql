-- One that is there already is left as it is, unless it has lost its key to another: that one is made anew.
INSERT INTO promises (workspace, id, run, deadline_at, status, settled_at, value, key, keep_key_for_ms, created_at, create_key,
    about, complete_key, said, token)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (workspace, id) DO UPDATE
SET run = excluded.run, deadline_at = excluded.deadline_at, status = excluded.status, settled_at = excluded.settled_at,
    value = excluded.value, key = excluded.key, keep_key_for_ms = excluded.keep_key_for_ms, created_at = excluded.created_at,
    create_key = excluded.create_key, about = excluded.about, complete_key = excluded.complete_key, said = excluded.said,
    token = excluded.token
WHERE promises.status = 5
