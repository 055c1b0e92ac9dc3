DELETE FROM hapax_promises WHERE workspace = ?1 AND run = ?2
