-- What stands against starts that were not made: a run with the id, or what the key names.
SELECT i.n, o.workspace AS own_workspace, k.run, k.fingerprint, k.first_seen_at, k.expires_at, h.*
FROM (
        SELECT * FROM unnest($2::int4[], $3::int4[], $4::uuid[], $5::text[]) AS u (n, workspace, id, key) LIMIT $1::int8
    ) AS i
    LEFT JOIN LATERAL (
        SELECT f.workspace, f.id FROM run_facts AS f WHERE f.id = i.id ORDER BY f.workspace <> i.workspace LIMIT 1
    ) AS o ON true
    LEFT JOIN keys AS k ON k.workspace = i.workspace AND k.kind = 0 AND k.key = i.key
    LEFT JOIN run_heads AS h ON h.workspace = i.workspace AND h.id = coalesce(o.id, k.run)
