-- The promise that a key names at $3.
SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.created_at, p.create_key, p.about,
    p.complete_key, p.said
FROM workspaces AS s
    JOIN keys AS k ON k.workspace = s.id
    JOIN promises AS p ON p.workspace = k.workspace AND p.id = k.promise
WHERE s.name = $1 AND k.kind = 1 AND k.key = $2 AND (k.expires_at IS NULL OR k.expires_at > $3)
