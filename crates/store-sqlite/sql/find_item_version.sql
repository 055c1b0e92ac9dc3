SELECT i.version FROM hapax_items AS i WHERE i.kind = ?1 AND i.id = ?2
