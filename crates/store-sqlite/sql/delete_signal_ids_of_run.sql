DELETE FROM signal_ids WHERE workspace = ?1 AND run = ?2
