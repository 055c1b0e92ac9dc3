-- The records of a run's current generation, in the order they started.
SELECT t.step, t.kind, t.status, t.attempts, t.started_at, t.started_version, t.changed_version, t.fence, t.at, t.value,
    t.child
FROM workspaces AS s
    JOIN runs AS r ON r.workspace = s.id
    JOIN steps AS t ON t.workspace = r.workspace AND t.run = r.id AND t.generation = r.generation
WHERE s.name = $1 AND r.id = $2
ORDER BY t.started_version, t.step
