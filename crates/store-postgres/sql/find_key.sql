SELECT run, fingerprint, promise, first_seen_at, expires_at FROM keys WHERE workspace = $1 AND kind = $2 AND key = $3
