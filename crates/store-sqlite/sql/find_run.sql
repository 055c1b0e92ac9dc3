SELECT h.*, f.input, e.status, e.value
FROM hapax_heads AS h
    CROSS JOIN hapax_run_facts AS f ON f.id = h.id
    LEFT JOIN hapax_run_results AS e ON e.workspace = h.workspace AND e.run = h.id
WHERE h.workspace = ?1 AND h.id = ?2
