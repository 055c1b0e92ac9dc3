SELECT f.id
FROM hapax_run_facts AS f INDEXED BY hapax_run_facts_children
    CROSS JOIN hapax_runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.workspace = ?1 AND f.parent = ?2 AND f.cancel_with_parent = 1 AND r.closed_at IS NULL
ORDER BY f.id
