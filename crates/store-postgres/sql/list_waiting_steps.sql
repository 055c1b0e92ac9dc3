-- Of one kind, of each run. Status 2 is WAITING. See advance_runs.sql for LIMIT.
SELECT i.id, s.step
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN runs AS r ON r.workspace = i.workspace AND r.id = i.id
    JOIN steps AS s ON s.workspace = r.workspace AND s.run = r.id AND s.generation = r.generation
WHERE s.kind = $4 AND s.status = 2
