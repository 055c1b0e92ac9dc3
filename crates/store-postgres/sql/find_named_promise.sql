SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value
FROM workspaces AS s
    JOIN promises AS p ON p.workspace = s.id
WHERE s.name = $1 AND p.id = $2
