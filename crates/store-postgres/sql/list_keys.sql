-- In the order of workspace names, not of their numbers, after a place.
SELECT s.name, k.kind, k.key, k.run, k.fingerprint, k.promise, k.first_seen_at, k.expires_at
FROM (SELECT id, name FROM workspaces WHERE name >= $1 ORDER BY name) AS s
    CROSS JOIN LATERAL (
        SELECT *
        FROM keys
        WHERE workspace = s.id AND (s.name > $1 OR (kind, key) > ($2, $3))
        ORDER BY kind, key
        LIMIT $4
    ) AS k
ORDER BY s.name, k.kind, k.key
LIMIT $4
