-- The row was locked when it was read.
UPDATE requests
SET status = $4, token = NULL, until = NULL, answered_at = $5, expires_at = $6, free_at = $7, answer_status = $8, headers = $9,
    body = $10
WHERE workspace = $1 AND caller = $2 AND key = $3
