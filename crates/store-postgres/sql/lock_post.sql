SELECT p.id, p.run, p.target, p.created_at, p.attempts, p.status, p.at, p.owner, p.failure, p.payload
FROM posts AS p
WHERE p.workspace = $1 AND p.id = $2
FOR UPDATE
