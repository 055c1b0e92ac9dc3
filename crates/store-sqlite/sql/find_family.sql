SELECT born, cancelled_at, reason, is_swept FROM hapax_families WHERE workspace = ?1 AND root = ?2
