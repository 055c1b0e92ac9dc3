-- Of one status among PAUSED, FAILED and CANCELLED.
SELECT id FROM hapax_runs INDEXED BY hapax_runs_set_aside
WHERE workspace = ?1 AND id < ?2 AND (?3 IS NULL OR workflow = ?3)
    AND (?6 IS NULL OR workflow_version = ?6) AND (status = 3 OR status >= 5) AND status = ?5
ORDER BY id DESC
LIMIT ?4
