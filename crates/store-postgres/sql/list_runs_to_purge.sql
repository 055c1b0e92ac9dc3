-- In the order of ids, whatever the workspace; old, and with a parent that is closed or gone.
SELECT f.id, f.workspace,
    coalesce(r.closed_at < $2, false) AND NOT EXISTS (
        SELECT FROM runs AS p WHERE p.workspace = f.workspace AND p.id = f.parent AND p.closed_at IS NULL)
FROM run_facts AS f
    JOIN runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.id >= $1
ORDER BY f.id
LIMIT $3
