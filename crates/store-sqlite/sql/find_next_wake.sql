SELECT wake_at, workspace
FROM hapax_runs INDEXED BY hapax_runs_due
WHERE workflow = ?1 AND workflow_version = ?2 AND priority = ?3 AND wake_at IS NOT NULL
ORDER BY wake_at
