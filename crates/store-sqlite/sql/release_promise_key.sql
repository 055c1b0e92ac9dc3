UPDATE hapax_keys SET expires_at = ?3 WHERE workspace = ?1 AND kind = 1 AND key = ?2
