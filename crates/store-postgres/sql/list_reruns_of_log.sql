-- Steps of a run's current generation whose records retries dropped, with the last attempt of those.
SELECT n.step, max(n.attempt)
FROM workspaces AS s
    JOIN runs AS r ON r.workspace = s.id
    JOIN notes AS n ON n.workspace = r.workspace AND n.run = r.id AND n.generation = r.generation
WHERE s.name = $1 AND r.id = $2 AND n.is_rerun
GROUP BY n.step
ORDER BY n.step
