-- In the order of the input, which is that of the keys.
SELECT 1
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, key) LIMIT $1::int8) AS i
    JOIN keys AS k ON k.workspace = i.workspace AND k.kind = 1 AND k.key = i.key
FOR UPDATE OF k
