UPDATE promises SET status = $3, settled_at = $4, value = $5, complete_key = $6, said = $7
WHERE workspace = $1 AND id = $2 AND status = 0
