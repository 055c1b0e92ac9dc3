SELECT wake_at, id, workspace
FROM hapax_runs INDEXED BY hapax_runs_due
WHERE workflow = ?1 AND workflow_version = ?2 AND priority = ?3 AND wake_at <= ?4
ORDER BY wake_at, id
