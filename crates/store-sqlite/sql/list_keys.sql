SELECT kind, key, run, promise, fingerprint, first_seen_at, expires_at
FROM hapax_keys
WHERE workspace = ?1 AND (kind, key) > (?2, ?3)
ORDER BY kind, key
LIMIT ?4
