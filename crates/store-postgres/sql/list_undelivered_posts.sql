-- Of one workspace and one status but DELIVERED; $5 is the target or NULL.
SELECT p.id, p.run, p.target, p.created_at, p.attempts, p.status, p.at, p.owner, p.failure, p.payload
FROM posts AS p
WHERE p.workspace = $1 AND p.id > $2 AND p.status <> 2 AND p.status = $4::int2 AND ($5::text IS NULL OR p.target = $5)
ORDER BY p.id
LIMIT $3
