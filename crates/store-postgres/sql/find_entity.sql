SELECT e.kind, e.id, e.status, e.version, e.updated_at, e.data
FROM entities AS e
WHERE e.workspace = $1 AND e.kind = $2 AND e.id = $3
