SELECT h.*, f.input, e.status, e.value
FROM heads AS h
    CROSS JOIN run_facts AS f ON f.id = h.id
    LEFT JOIN run_results AS e ON e.workspace = h.workspace AND e.run = h.id
WHERE h.workspace = ?1 AND h.id = ?2
