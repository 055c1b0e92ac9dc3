DELETE FROM operations AS t
USING (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
WHERE t.workspace = i.workspace AND t.id = i.id
