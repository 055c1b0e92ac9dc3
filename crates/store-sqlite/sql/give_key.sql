-- A key that names this run already keeps the instant it was first seen, and its counts.
INSERT INTO hapax_keys (workspace, kind, key, run, fingerprint, first_seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (workspace, kind, key) DO UPDATE
SET first_seen_at = CASE WHEN run = excluded.run THEN first_seen_at ELSE excluded.first_seen_at END,
    replays = CASE WHEN run = excluded.run THEN replays ELSE 0 END,
    conflicts = CASE WHEN run = excluded.run THEN conflicts ELSE 0 END,
    run = excluded.run, fingerprint = excluded.fingerprint, expires_at = NULL
