-- As find_run.sql, any number at once.
SELECT h.*, f.input, e.status, e.value
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN run_heads AS h ON h.workspace = i.workspace AND h.id = i.id
    JOIN run_facts AS f ON f.workspace = h.workspace AND f.id = h.id
    LEFT JOIN run_results AS e ON e.workspace = h.workspace AND e.run = h.id
