SELECT s.name, f.root
FROM hapax_families AS f INDEXED BY hapax_families_unswept
    CROSS JOIN hapax_workspaces AS s ON s.id = f.workspace
WHERE f.cancelled_at IS NOT NULL AND f.is_swept = 0
ORDER BY f.root
LIMIT ?1
