-- ?4 is the workspace or NULL. Those that changed lately are few, so they are sorted here.
SELECT i.kind, i.id, s.name, i.name, i.version, i.body, i.created_at, i.changed_at
FROM hapax_items AS i INDEXED BY hapax_items_by_change CROSS JOIN hapax_workspaces AS s ON s.id = i.workspace
WHERE i.kind = ?1 AND i.id > ?2 AND i.changed_at >= ?5 AND (?4 IS NULL OR i.workspace = ?4)
ORDER BY i.id
LIMIT ?3
