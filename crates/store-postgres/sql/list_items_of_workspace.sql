SELECT i.kind, i.id, s.name, i.name, i.version, i.body, i.created_at, i.changed_at
FROM (SELECT * FROM items WHERE workspace = $4 AND kind = $1 AND id > $2 ORDER BY id LIMIT $3) AS i
    JOIN workspaces AS s ON s.id = i.workspace
ORDER BY i.id
