DELETE FROM steps WHERE workspace = $1 AND run = $2 AND generation = $3 AND step = $4
