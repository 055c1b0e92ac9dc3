DELETE FROM hapax_steps WHERE workspace = ?1 AND run = ?2
