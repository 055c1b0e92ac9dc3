DELETE FROM signals WHERE workspace = $1 AND run = $2 AND seq = $3
