SELECT e.id, e.status, e.version, e.updated_at, e.data
FROM hapax_entities AS e INDEXED BY hapax_entities_by_status
WHERE e.workspace = ?1 AND e.kind = ?2 AND e.id > ?3 AND e.status = ?5
ORDER BY e.id
LIMIT ?4
