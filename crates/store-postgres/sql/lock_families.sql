-- In the order of roots.
SELECT f.workspace, f.root, f.born, f.cancelled_at, f.reason, f.is_swept
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, root) ORDER BY root, workspace LIMIT $1::int8) AS i
    CROSS JOIN LATERAL (
        SELECT * FROM families AS l WHERE l.workspace = i.workspace AND l.root = i.root FOR NO KEY UPDATE
    ) AS f
