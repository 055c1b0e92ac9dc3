SELECT root FROM hapax_run_facts WHERE workspace = ?1 AND id = ?2
