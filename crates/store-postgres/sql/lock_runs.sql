-- In the order of the input, which is the order of ids: a parent comes before its children.
SELECT 1
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN runs AS r ON r.workspace = i.workspace AND r.id = i.id
FOR NO KEY UPDATE OF r
