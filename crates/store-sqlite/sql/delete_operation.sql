DELETE FROM hapax_operations WHERE workspace = ?1 AND id = ?2
