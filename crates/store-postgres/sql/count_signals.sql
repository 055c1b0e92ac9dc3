SELECT count(*) FROM signals WHERE workspace = $1 AND run = $2
