SELECT count(*) FROM hapax_signals WHERE workspace = ?1 AND run = ?2
