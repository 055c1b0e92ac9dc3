UPDATE keys SET expires_at = $5 WHERE workspace = $1 AND kind = $2 AND key = $3 AND run = $4
