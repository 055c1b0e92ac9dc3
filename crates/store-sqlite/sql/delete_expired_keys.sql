DELETE FROM keys WHERE (workspace, kind, key) IN (
    SELECT workspace, kind, key FROM keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
