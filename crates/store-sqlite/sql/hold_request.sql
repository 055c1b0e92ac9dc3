-- A request that is new under its key begins without counts; one that is taken over keeps them.
INSERT INTO hapax_requests (workspace, caller, key, id, fingerprint, first_seen_at, status, token, until, method, path, outline)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (workspace, caller, key) DO UPDATE
SET replays = CASE WHEN id = excluded.id THEN replays ELSE 0 END,
    conflicts = CASE WHEN id = excluded.id THEN conflicts ELSE 0 END,
    id = excluded.id, fingerprint = excluded.fingerprint, first_seen_at = excluded.first_seen_at,
    status = excluded.status, token = excluded.token, until = excluded.until,
    answered_at = NULL, expires_at = NULL, free_at = NULL,
    method = excluded.method, path = excluded.path, outline = excluded.outline
