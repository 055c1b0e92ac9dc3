-- ?4 is the workspace or NULL.
SELECT w.name, s.run, s.step, s.kind, s.status, s.attempts, s.started_at, s.started_version, s.changed_version, s.fence,
    s.at, s.value, s.child
FROM hapax_steps AS s INDEXED BY hapax_steps_in_doubt
    CROSS JOIN hapax_workspaces AS w ON w.id = s.workspace
WHERE s.status = 7 AND (s.at, s.run, s.step) > (?1, ?2, ?3) AND (?4 IS NULL OR s.workspace = ?4)
ORDER BY s.at, s.run, s.step
LIMIT ?5
