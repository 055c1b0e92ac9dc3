-- Answers with those that are still held. Pending is 0; asked for otherwise, it would go by the index of all that are.
UPDATE operations AS o
SET at = $5
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[], $4::int4[]) AS u (workspace, id, attempt) LIMIT $1::int8) AS i
WHERE o.workspace = i.workspace AND o.id = i.id AND o.attempt = i.attempt AND o.owner = $6 AND o.status < 1
RETURNING o.workspace, o.id, o.attempt
