-- Of one kind. Status 2 is WAITING.
SELECT s.step
FROM hapax_runs AS r
    CROSS JOIN hapax_steps AS s ON s.workspace = r.workspace AND s.run = r.id AND s.generation = r.generation
WHERE r.workspace = ?1 AND r.id = ?2 AND s.kind = ?3 AND s.status = 2
