SELECT h.place, s.name, h.source, h.event, h.received_at, h.changed_at, h.duplicates, h.attempts, h.status, h.outcome, h.headers, h.body
FROM hapax_hooks AS h CROSS JOIN hapax_workspaces AS s ON s.id = h.workspace
WHERE h.workspace = ?1 AND h.source = ?2 AND h.event = ?3
