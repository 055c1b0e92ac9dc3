-- The oldest first, after a place; $6 is the operation or NULL.
SELECT place, operation, at, actor, role, origin, body
FROM entity_notes
WHERE workspace = $1 AND kind = $2 AND entity = $3 AND place > $4 AND ($6::uuid IS NULL OR operation = $6)
ORDER BY place
LIMIT $5
