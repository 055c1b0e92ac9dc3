INSERT INTO run_results (workspace, run, status, value) VALUES ($1, $2, $3, $4)
