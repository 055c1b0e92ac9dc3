SELECT s.workspace, s.run, s.id
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[], $4::text[]) AS u (workspace, run, id) LIMIT $1::int8) AS i
    JOIN signal_ids AS s ON s.workspace = i.workspace AND s.run = i.run AND s.id = i.id
