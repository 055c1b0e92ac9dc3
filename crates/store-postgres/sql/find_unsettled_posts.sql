-- Which of these locked runs have an after-effect on its way. A statement of its own, so that it sees what was committed
-- before they were locked.
SELECT i.workspace, i.id
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
WHERE (SELECT min(a.status) FROM posts AS a WHERE a.workspace = i.workspace AND a.run = i.id) < 2
