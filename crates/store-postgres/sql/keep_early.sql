-- One whose time is over makes room.
INSERT INTO early_settlements (workspace, key, status, value, complete_key, said, at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (workspace, key) DO UPDATE
SET status = excluded.status, value = excluded.value, complete_key = excluded.complete_key, said = excluded.said,
    at = excluded.at, expires_at = excluded.expires_at
