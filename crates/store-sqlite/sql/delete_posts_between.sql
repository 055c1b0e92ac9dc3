-- Those of one operation: their ids begin with its own.
DELETE FROM hapax_posts WHERE workspace = ?1 AND id > ?2 AND id < ?3
