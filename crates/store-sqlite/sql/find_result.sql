SELECT status, value FROM hapax_run_results WHERE workspace = ?1 AND run = ?2
