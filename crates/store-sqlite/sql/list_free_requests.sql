SELECT number FROM hapax_requests WHERE free_at <= ?1 ORDER BY free_at LIMIT ?2
