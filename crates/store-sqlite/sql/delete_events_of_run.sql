DELETE FROM hapax_events WHERE workspace = ?1 AND run = ?2
