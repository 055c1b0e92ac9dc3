-- Of one status among PAUSED, FAILED and CANCELLED.
SELECT workspace, id FROM runs
WHERE workspace = $1 AND id <= $2 AND ($3::int4 IS NULL OR workflow = $3)
    AND ($6::int4 IS NULL OR workflow_version = $6) AND status IN (3, 5, 6) AND status = $5
ORDER BY id DESC
LIMIT $4
