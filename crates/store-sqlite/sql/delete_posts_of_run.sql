DELETE FROM hapax_posts INDEXED BY hapax_posts_of_run WHERE workspace = ?1 AND run = ?2
