-- The same, of one status but DELIVERED.
SELECT s.name, p.id, p.run, p.target, p.created_at, p.attempts, p.status, p.at, p.owner, p.failure, p.payload
FROM (SELECT id, name FROM workspaces WHERE name >= $1 ORDER BY name) AS s
    CROSS JOIN LATERAL (
        SELECT *
        FROM posts
        WHERE workspace = s.id AND id > CASE s.name WHEN $1 THEN $2 ELSE '' END AND status <> 2 AND status = $4::int2
            AND ($5::text IS NULL OR target = $5)
        ORDER BY id
        LIMIT $3
    ) AS p
ORDER BY s.name, p.id
LIMIT $3
