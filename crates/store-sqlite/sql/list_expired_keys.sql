SELECT workspace, kind, key FROM keys INDEXED BY keys_by_expiry WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
