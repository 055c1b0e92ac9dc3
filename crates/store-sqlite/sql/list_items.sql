SELECT i.kind, i.id, s.name, i.name, i.version, i.body, i.created_at, i.changed_at
FROM hapax_items AS i CROSS JOIN hapax_workspaces AS s ON s.id = i.workspace
WHERE i.kind = ?1 AND i.id > ?2
ORDER BY i.id
LIMIT ?3
