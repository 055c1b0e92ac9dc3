DELETE FROM run_facts WHERE workspace = ?1 AND id = ?2
