-- Of one workspace; ?3 is the source or NULL, ?4 the status or NULL.
SELECT h.place, s.name, h.source, h.event, h.received_at, h.changed_at, h.duplicates, h.attempts, h.status, h.outcome, h.headers, h.body
FROM hapax_hooks AS h INDEXED BY hapax_hooks_of_workspace CROSS JOIN hapax_workspaces AS s ON s.id = h.workspace
WHERE h.workspace = ?1 AND h.place < ?2 AND (?3 IS NULL OR h.source = ?3) AND (?4 IS NULL OR h.status = ?4)
ORDER BY h.place DESC
LIMIT ?5
