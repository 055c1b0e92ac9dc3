-- A key that names this run already keeps the instant it was first seen, and its counts; a live key of another run is left as it is.
INSERT INTO keys (workspace, kind, key, run, fingerprint, first_seen_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (workspace, kind, key) DO UPDATE
SET first_seen_at = CASE WHEN keys.run = excluded.run THEN keys.first_seen_at ELSE excluded.first_seen_at END,
    replays = CASE WHEN keys.run = excluded.run THEN keys.replays ELSE 0 END,
    conflicts = CASE WHEN keys.run = excluded.run THEN keys.conflicts ELSE 0 END,
    run = excluded.run, fingerprint = excluded.fingerprint, expires_at = NULL
WHERE keys.run = excluded.run OR keys.expires_at <= $6
