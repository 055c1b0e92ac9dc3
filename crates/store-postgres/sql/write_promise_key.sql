-- A locked one.
UPDATE keys SET promise = $3, first_seen_at = $4, expires_at = $5 WHERE workspace = $1 AND kind = 1 AND key = $2
