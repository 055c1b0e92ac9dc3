INSERT INTO signals (workspace, run, seq, name, id, payload, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
