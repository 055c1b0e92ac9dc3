-- Of one status among PENDING, RUNNING and WAITING.
SELECT workspace, id FROM runs
WHERE workspace = $1 AND id <= $2 AND ($3::int4 IS NULL OR workflow = $3)
    AND ($6::int4 IS NULL OR workflow_version = $6) AND closed_at IS NULL AND status = $5
ORDER BY id DESC
LIMIT $4
