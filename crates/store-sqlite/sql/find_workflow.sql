SELECT id FROM hapax_workflows WHERE name = ?1
