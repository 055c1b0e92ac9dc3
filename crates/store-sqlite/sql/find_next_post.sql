SELECT at FROM hapax_posts INDEXED BY hapax_posts_due WHERE target = ?1 AND status < 2 AND at > ?2 ORDER BY at LIMIT 1
