UPDATE hapax_requests
SET status = ?2, token = NULL, until = NULL, answered_at = ?3, expires_at = ?4, free_at = ?5
WHERE number = ?1
