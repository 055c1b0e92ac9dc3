UPDATE hapax_run_facts SET input = ?2 WHERE id = ?1
