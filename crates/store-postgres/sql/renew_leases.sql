-- Answers with those that were prolonged.
UPDATE runs AS r
SET wake_at = $5
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[], $4::int8[]) AS u (workspace, id, fence) LIMIT $1::int8) AS i
WHERE r.workspace = i.workspace AND r.id = i.id AND r.fence = i.fence AND r.lease_owner = $6
RETURNING r.workspace, r.id, r.fence
