-- One workspace, any status; $3 is the workflow or NULL.
SELECT workspace, id FROM runs
WHERE workspace = $1 AND id <= $2 AND ($3::int4 IS NULL OR workflow = $3)
ORDER BY id DESC
LIMIT $4
