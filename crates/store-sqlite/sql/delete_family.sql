-- Once the root and everything that descends from it is gone.
DELETE FROM hapax_families
WHERE workspace = ?1 AND root = ?2
    AND NOT EXISTS (SELECT 1 FROM hapax_run_facts AS f WHERE f.id = ?2)
    AND NOT EXISTS (SELECT 1 FROM hapax_run_facts AS f WHERE f.workspace = ?1 AND f.root = ?2)
