SELECT version, at, fence, kind, note
FROM hapax_events
WHERE workspace = ?1 AND run = ?2 AND version > ?3
ORDER BY version
LIMIT ?4
