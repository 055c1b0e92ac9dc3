SELECT s.name, t.promise, t.expires_at
FROM settle_tokens AS t
    JOIN workspaces AS s ON s.id = t.workspace
WHERE t.digest = $1
