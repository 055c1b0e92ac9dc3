SELECT * FROM heads WHERE workspace = ?1 AND id = ?2
