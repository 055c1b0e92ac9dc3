-- One workspace, any status; $3 is the workflow and $5 its version, or NULL.
SELECT workspace, id FROM runs
WHERE workspace = $1 AND id <= $2 AND ($3::int4 IS NULL OR workflow = $3)
    AND ($5::int4 IS NULL OR workflow_version = $5)
ORDER BY id DESC
LIMIT $4
