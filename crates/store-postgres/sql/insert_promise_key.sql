-- One that somebody else has taken meanwhile breaks the primary key, and the whole is tried again.
INSERT INTO keys (workspace, kind, key, promise, first_seen_at, expires_at) VALUES ($1, 1, $2, $3, $4, $5)
