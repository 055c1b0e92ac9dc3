SELECT * FROM hapax_heads WHERE workspace = ?1 AND id = ?2
