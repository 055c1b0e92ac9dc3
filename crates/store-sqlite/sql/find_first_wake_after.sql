-- Of the first workflow, version and priority after these that have runs which time alone makes due: the first of them.
SELECT workflow, workflow_version, priority, wake_at
FROM hapax_runs INDEXED BY hapax_runs_due
WHERE wake_at IS NOT NULL AND (workflow, workflow_version, priority) > (?1, ?2, ?3)
ORDER BY workflow, workflow_version, priority, wake_at
LIMIT 1
