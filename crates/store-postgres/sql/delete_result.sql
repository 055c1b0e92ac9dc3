DELETE FROM run_results WHERE workspace = $1 AND run = $2
