SELECT f.id
FROM run_facts AS f
    JOIN runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.workspace = $1 AND f.parent = $2 AND f.cancel_with_parent AND r.closed_at IS NULL
ORDER BY f.id
