SELECT h.place, s.name, h.source, h.event, h.received_at, h.changed_at, h.duplicates, h.attempts, h.status, h.outcome, h.headers, h.body
FROM hapax_hooks AS h INDEXED BY hapax_hooks_unprocessed CROSS JOIN hapax_workspaces AS s ON s.id = h.workspace
WHERE h.status = 0 AND h.received_at < ?1 AND (h.received_at, h.place) > (?2, ?3)
ORDER BY h.received_at, h.place
LIMIT ?4
