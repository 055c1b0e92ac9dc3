SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.created_at, p.create_key, p.about,
    p.complete_key, p.said
FROM workspaces AS s
    JOIN promises AS p ON p.workspace = s.id
WHERE s.name = $1 AND p.id = $2
