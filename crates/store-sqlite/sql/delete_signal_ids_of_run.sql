DELETE FROM hapax_signal_ids WHERE workspace = ?1 AND run = ?2
