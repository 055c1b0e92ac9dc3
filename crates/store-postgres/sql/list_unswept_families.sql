SELECT s.name, f.root
FROM families AS f
    JOIN workspaces AS s ON s.id = f.workspace
WHERE f.root > '00000000-0000-0000-0000-000000000000' AND f.cancelled_at IS NOT NULL AND NOT f.is_swept
ORDER BY f.root
LIMIT $1
