-- The roots of the families that runs belong to: their own ids, if no run started them.
SELECT DISTINCT f.workspace, coalesce(f.root, f.id)
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN run_facts AS f ON f.workspace = i.workspace AND f.id = i.id
