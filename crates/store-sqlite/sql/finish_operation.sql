UPDATE hapax_operations SET status = ?4, at = ?5, value = ?6, tries = ?7, settled = ?8, tries_before = ?9
WHERE workspace = ?1 AND id = ?2 AND attempt = ?3
