-- Where the entities of operations live, which never changes.
SELECT o.workspace, o.id, o.kind, o.entity, o.home
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN operations AS o ON o.workspace = i.workspace AND o.id = i.id
