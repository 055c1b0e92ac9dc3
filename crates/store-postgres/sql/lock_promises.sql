-- Those that stand alone, in the order of the input, which is that of their ids; others are locked by their run.
SELECT 1
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN promises AS p ON p.workspace = i.workspace AND p.id = i.id
FOR UPDATE OF p
