SELECT key, status, value, complete_key, said, at, expires_at
FROM hapax_early_settlements
WHERE workspace = ?1 AND key > ?2 AND expires_at > ?3
ORDER BY key
LIMIT ?4
