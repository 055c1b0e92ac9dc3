-- What keys name, before any lock.
SELECT k.workspace, k.promise
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, key) LIMIT $1::int8) AS i
    JOIN keys AS k ON k.workspace = i.workspace AND k.kind = 1 AND k.key = i.key
WHERE k.promise IS NOT NULL
