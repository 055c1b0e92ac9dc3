-- By name, as keys are listed.
SELECT id, name FROM hapax_workspaces WHERE name >= ?1 ORDER BY name
