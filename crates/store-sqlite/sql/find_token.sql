SELECT token FROM runs WHERE workspace = ?1 AND id = ?2
