SELECT run, promise, fingerprint, first_seen_at, expires_at FROM hapax_keys WHERE workspace = ?1 AND kind = ?2 AND key = ?3
