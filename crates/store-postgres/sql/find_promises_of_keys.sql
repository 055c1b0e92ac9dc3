-- What keys name, before any lock. Whether it is a promise is not asked here, so that no index of promises' keys alone could be walked.
SELECT k.workspace, k.promise
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, key) LIMIT $1::int8) AS i
    JOIN keys AS k ON k.workspace = i.workspace AND k.kind = 1 AND k.key = i.key
