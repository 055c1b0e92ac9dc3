-- Once the root and everything that descends from it is gone. Asked for one row each, so that the planner looks them up instead of joining.
DELETE FROM families AS d
USING (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, root) LIMIT $1::int8) AS i
WHERE d.workspace = i.workspace AND d.root = i.root
    AND (SELECT true FROM run_facts AS f WHERE f.workspace = i.workspace AND f.id = i.root LIMIT 1) IS NULL
    AND (SELECT true FROM run_facts AS f WHERE f.workspace = i.workspace AND f.root = i.root LIMIT 1) IS NULL
