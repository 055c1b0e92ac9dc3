SELECT token FROM hapax_promises WHERE workspace = ?1 AND id = ?2
