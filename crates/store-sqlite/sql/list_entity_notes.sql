-- About one entity; ?4 is the operation or NULL.
SELECT place, operation, at, actor, role, origin, body
FROM hapax_entity_notes INDEXED BY hapax_entity_notes_of_entity
WHERE workspace = ?1 AND kind = ?2 AND entity = ?3 AND place > ?5 AND (?4 IS NULL OR operation = ?4)
ORDER BY place
LIMIT ?6
