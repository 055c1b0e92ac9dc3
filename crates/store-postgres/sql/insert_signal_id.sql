INSERT INTO signal_ids (workspace, run, id) VALUES ($1, $2, $3)
