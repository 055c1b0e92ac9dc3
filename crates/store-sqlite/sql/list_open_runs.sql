-- Of one status among PENDING, RUNNING and WAITING.
SELECT id FROM hapax_runs INDEXED BY hapax_runs_open
WHERE workspace = ?1 AND id < ?2 AND (?3 IS NULL OR workflow = ?3)
    AND (?6 IS NULL OR workflow_version = ?6) AND closed_at IS NULL AND status = ?5
ORDER BY id DESC
LIMIT ?4
