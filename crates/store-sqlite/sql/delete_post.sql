DELETE FROM hapax_posts WHERE workspace = ?1 AND id = ?2
