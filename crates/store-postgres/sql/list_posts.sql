-- Of one workspace; $4 is the status or NULL, $5 the target or NULL. Nearly every row that is walked over is a delivered one.
SELECT p.id, p.run, p.target, p.created_at, p.attempts, p.status, p.at, p.owner, p.failure, p.payload
FROM posts AS p
WHERE p.workspace = $1 AND p.id > $2 AND ($4::int2 IS NULL OR p.status = $4) AND ($5::text IS NULL OR p.target = $5)
ORDER BY p.id
LIMIT $3
