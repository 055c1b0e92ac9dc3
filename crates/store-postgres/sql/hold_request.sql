-- A request that is new under its key begins without counts; one that is taken over keeps them. The row was locked when it was read.
UPDATE requests
SET replays = CASE WHEN id = $4 THEN replays ELSE 0 END,
    conflicts = CASE WHEN id = $4 THEN conflicts ELSE 0 END,
    id = $4, fingerprint = $5, first_seen_at = $6, status = $7, token = $8, until = $9, method = $10, path = $11, outline = $12,
    answered_at = NULL, expires_at = NULL, free_at = NULL, answer_status = NULL, headers = NULL, body = NULL
WHERE workspace = $1 AND caller = $2 AND key = $3
