SELECT p.workspace, p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN promises AS p ON p.workspace = i.workspace AND p.id = i.id
