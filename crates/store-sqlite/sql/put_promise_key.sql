-- What a key that still lives counted stays with it; one that is given anew begins without counts.
INSERT INTO hapax_keys (workspace, kind, key, promise, first_seen_at, expires_at) VALUES (?1, 1, ?2, ?3, ?4, ?5)
ON CONFLICT (workspace, kind, key) DO UPDATE
SET replays = CASE WHEN first_seen_at = excluded.first_seen_at THEN replays ELSE 0 END,
    conflicts = CASE WHEN first_seen_at = excluded.first_seen_at THEN conflicts ELSE 0 END,
    promise = excluded.promise, first_seen_at = excluded.first_seen_at, expires_at = excluded.expires_at
