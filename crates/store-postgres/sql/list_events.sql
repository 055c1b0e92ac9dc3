SELECT e.version, e.at, e.fence, e.kind, e.note
FROM workspaces AS s
    JOIN events AS e ON e.workspace = s.id
WHERE s.name = $1 AND e.run = $2 AND e.version > $3
ORDER BY e.version
LIMIT $4
