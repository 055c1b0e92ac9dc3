SELECT 1 FROM hapax_signal_ids WHERE workspace = ?1 AND run = ?2 AND id = ?3
