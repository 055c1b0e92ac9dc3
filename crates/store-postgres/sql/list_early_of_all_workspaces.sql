-- In the order of workspace names, not of their numbers, after a place; those whose time is not over at $4.
SELECT s.name, e.key, e.status, e.value, e.complete_key, e.said, e.at, e.expires_at
FROM (SELECT id, name FROM workspaces WHERE name >= $1 ORDER BY name) AS s
    CROSS JOIN LATERAL (
        SELECT *
        FROM early_settlements
        WHERE workspace = s.id AND key > CASE s.name WHEN $1 THEN $2 ELSE '' END AND expires_at > $4
        ORDER BY key
        LIMIT $3
    ) AS e
ORDER BY s.name, e.key
LIMIT $3
