SELECT h.*
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN run_heads AS h ON h.workspace = i.workspace AND h.id = i.id
