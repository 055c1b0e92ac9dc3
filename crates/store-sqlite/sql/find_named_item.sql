SELECT i.kind, i.id, s.name, i.name, i.version, i.body, i.created_at, i.changed_at
FROM hapax_items AS i CROSS JOIN hapax_workspaces AS s ON s.id = i.workspace
WHERE i.workspace = ?1 AND i.kind = ?2 AND i.name = ?3
