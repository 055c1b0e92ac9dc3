INSERT INTO settle_tokens (digest, workspace, promise, expires_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (digest) DO UPDATE
SET workspace = excluded.workspace, promise = excluded.promise, expires_at = excluded.expires_at
