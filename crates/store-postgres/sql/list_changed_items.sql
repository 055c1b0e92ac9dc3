-- $4 is the workspace or NULL. Those that changed lately are few, so they are sorted here.
SELECT i.kind, i.id, s.name, i.name, i.version, i.body, i.created_at, i.changed_at
FROM (
    SELECT *
    FROM items
    WHERE kind = $1 AND changed_at >= $5 AND id > $2 AND ($4::int4 IS NULL OR workspace = $4)
    ORDER BY id
    LIMIT $3
) AS i
    JOIN workspaces AS s ON s.id = i.workspace
ORDER BY i.id
