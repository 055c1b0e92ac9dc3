SELECT status, value, complete_key, said, at, expires_at FROM hapax_early_settlements WHERE workspace = ?1 AND key = ?2
