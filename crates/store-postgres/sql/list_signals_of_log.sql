SELECT g.seq, g.name, g.id, g.payload, g.at
FROM workspaces AS s
    JOIN signals AS g ON g.workspace = s.id
WHERE s.name = $1 AND g.run = $2
ORDER BY g.seq
