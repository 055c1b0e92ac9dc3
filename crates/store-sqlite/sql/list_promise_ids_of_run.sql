SELECT id FROM hapax_promises INDEXED BY hapax_promises_of_run WHERE workspace = ?1 AND run = ?2
