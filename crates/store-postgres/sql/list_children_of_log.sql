-- The children that waiting steps name, with what they ended with.
SELECT t.child, e.status, e.value
FROM workspaces AS s
    JOIN runs AS r ON r.workspace = s.id
    JOIN steps AS t ON t.workspace = r.workspace AND t.run = r.id AND t.generation = r.generation
    LEFT JOIN run_results AS e ON e.workspace = t.workspace AND e.run = t.child
WHERE s.name = $1 AND r.id = $2 AND t.status = 2 AND t.child IS NOT NULL
ORDER BY t.started_version, t.step
