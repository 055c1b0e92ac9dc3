SELECT 1 FROM signal_ids WHERE workspace = ?1 AND run = ?2 AND id = ?3
