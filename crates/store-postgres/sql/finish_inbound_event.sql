UPDATE hooks SET attempts = attempts + 1, status = $5, outcome = $6, changed_at = $7
WHERE workspace = $1 AND source = $2 AND event = $3 AND attempts = $4
