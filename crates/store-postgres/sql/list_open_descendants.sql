SELECT f.id
FROM run_facts AS f
    JOIN runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.workspace = $1 AND f.root = $2 AND f.id > $3 AND r.closed_at IS NULL
ORDER BY f.id
LIMIT $4
