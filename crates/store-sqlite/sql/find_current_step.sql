-- The first step that is not final, or else the last. Statuses 3 to 6 are final.
SELECT s.step
FROM hapax_runs AS r
    CROSS JOIN hapax_steps AS s ON s.workspace = r.workspace AND s.run = r.id AND s.generation = r.generation
WHERE r.workspace = ?1 AND r.id = ?2
ORDER BY s.status BETWEEN 3 AND 6, CASE WHEN s.status BETWEEN 3 AND 6 THEN -s.started_version ELSE s.started_version END
LIMIT 1
