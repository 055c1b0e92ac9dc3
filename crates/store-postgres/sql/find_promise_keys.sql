-- Locked keys, each with the settlement that is kept for it.
SELECT k.workspace, k.key, k.run, k.fingerprint, k.promise, k.first_seen_at, k.expires_at,
    e.status, e.value, e.complete_key, e.said, e.at, e.expires_at
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, key) LIMIT $1::int8) AS i
    JOIN keys AS k ON k.workspace = i.workspace AND k.kind = 1 AND k.key = i.key
    LEFT JOIN early_settlements AS e ON e.workspace = k.workspace AND e.key = k.key
