-- The holder of a pending operation lives.
UPDATE hapax_operations SET at = ?5
WHERE workspace = ?1 AND id = ?2 AND attempt = ?3 AND owner = ?4 AND status = 0
