-- If it still names the promise.
UPDATE hapax_keys SET expires_at = ?4
WHERE workspace = ?1 AND kind = 1 AND key = ?2 AND promise = ?3 AND (expires_at IS NULL OR expires_at > ?5)
