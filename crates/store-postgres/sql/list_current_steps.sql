-- Of each run the first step that is not final, or else the last. Statuses 3 to 6 are final. See advance_runs.sql for LIMIT.
SELECT i.id, s.step
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN runs AS r ON r.workspace = i.workspace AND r.id = i.id
    CROSS JOIN LATERAL (
        SELECT s.step FROM steps AS s
        WHERE s.workspace = r.workspace AND s.run = r.id AND s.generation = r.generation
        ORDER BY s.status BETWEEN 3 AND 6,
            CASE WHEN s.status BETWEEN 3 AND 6 THEN -s.started_version ELSE s.started_version END
        LIMIT 1
    ) AS s
