SELECT id FROM hapax_workspaces WHERE name = ?1
