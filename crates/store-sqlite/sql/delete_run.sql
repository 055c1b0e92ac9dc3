DELETE FROM hapax_runs WHERE workspace = ?1 AND id = ?2
