-- A request that was never held: its key, its run and its answer are one write.
INSERT INTO requests (workspace, caller, key, id, fingerprint, first_seen_at, status, answered_at, expires_at, free_at, method,
    path, outline, answer_status, headers, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
