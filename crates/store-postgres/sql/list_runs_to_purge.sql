-- In the order of ids, whatever the workspace; old, with a parent that is closed or gone, and all its after-effects settled.
-- OFFSET 0 keeps the planner from beginning with the runs, and the scalar questions, unlike EXISTS, from looking at all open
-- runs or all that is to be delivered at once.
SELECT f.id, f.workspace,
    coalesce(r.closed_at < $2, false) AND coalesce(
        (SELECT p.closed_at IS NOT NULL FROM runs AS p WHERE p.workspace = f.workspace AND p.id = f.parent), true)
    AND coalesce((SELECT min(a.status) FROM posts AS a WHERE a.workspace = f.workspace AND a.run = f.id) >= 2, true)
FROM run_facts AS f
    CROSS JOIN LATERAL (
        SELECT r.closed_at FROM runs AS r WHERE r.workspace = f.workspace AND r.id = f.id OFFSET 0
    ) AS r
WHERE f.id >= $1
ORDER BY f.id
LIMIT $3
