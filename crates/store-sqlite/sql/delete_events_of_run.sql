DELETE FROM events WHERE workspace = ?1 AND run = ?2
