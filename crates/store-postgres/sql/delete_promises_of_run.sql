DELETE FROM promises WHERE workspace = $1 AND run = $2
