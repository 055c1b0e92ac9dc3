SELECT h.*, f.input, e.status, e.value
FROM run_heads AS h
    JOIN run_facts AS f ON f.workspace = h.workspace AND f.id = h.id
    LEFT JOIN run_results AS e ON e.workspace = h.workspace AND e.run = h.id
WHERE h.workspace_name = $1 AND h.id = $2
