-- In the order of the input, which is that of the entities.
SELECT e.workspace, e.kind, e.id, e.status, e.version, e.updated_at, e.data
FROM (SELECT * FROM unnest($2::int4[], $3::text[], $4::text[]) AS u (workspace, kind, id) LIMIT $1::int8) AS i
    JOIN entities AS e ON e.workspace = i.workspace AND e.kind = i.kind AND e.id = i.id
FOR NO KEY UPDATE OF e
