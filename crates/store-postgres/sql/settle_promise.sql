UPDATE promises SET status = $3, settled_at = $4, value = $5 WHERE workspace = $1 AND id = $2 AND status = 0
