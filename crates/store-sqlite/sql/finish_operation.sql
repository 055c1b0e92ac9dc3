UPDATE hapax_operations SET status = ?4, at = ?5, value = ?6
WHERE workspace = ?1 AND id = ?2 AND attempt = ?3
