-- At exclusive opening: whoever was delivering these is dead.
UPDATE hapax_posts INDEXED BY hapax_posts_undelivered SET at = ?1 WHERE status <> 2 AND status = 1 AND at > ?1
