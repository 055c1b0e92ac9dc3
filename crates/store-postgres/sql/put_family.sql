INSERT INTO families (workspace, root, born, cancelled_at, reason, is_swept)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (workspace, root) DO UPDATE
SET born = excluded.born, cancelled_at = excluded.cancelled_at, reason = excluded.reason, is_swept = excluded.is_swept
