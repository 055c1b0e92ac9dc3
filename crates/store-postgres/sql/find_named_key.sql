SELECT k.run, k.fingerprint, k.promise, k.first_seen_at, k.expires_at
FROM workspaces AS s
    JOIN keys AS k ON k.workspace = s.id
WHERE s.name = $1 AND k.kind = $2 AND k.key = $3
