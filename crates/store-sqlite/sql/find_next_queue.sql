-- First run of the first queue from a place on. A queue is one workflow version and priority.
SELECT workflow, workflow_version, priority, wake_at, workspace
FROM hapax_runs INDEXED BY hapax_runs_due
WHERE (workflow, workflow_version, priority) >= (?1, ?2, ?3) AND wake_at IS NOT NULL
ORDER BY workflow, workflow_version, priority, wake_at
LIMIT 1
