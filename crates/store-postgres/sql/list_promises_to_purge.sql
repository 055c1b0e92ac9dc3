-- Those that stand alone and were over before $1, the longest over first, but for those that an open run waits for.
SELECT p.workspace, p.id
FROM promises AS p
    JOIN workspaces AS s ON s.id = p.workspace
WHERE p.run = '00000000-0000-0000-0000-000000000000'
    AND CASE p.status WHEN 5 THEN p.created_at ELSE coalesce(p.settled_at, p.deadline_at) END < $1
    AND coalesce(
        (SELECT bool_and(r.closed_at IS NOT NULL)
        FROM promise_waiters AS w
            CROSS JOIN LATERAL (SELECT closed_at FROM runs WHERE workspace = w.workspace AND id = w.run OFFSET 0) AS r
        WHERE w.workspace = p.workspace AND w.promise = p.id), true)
ORDER BY CASE p.status WHEN 5 THEN p.created_at ELSE coalesce(p.settled_at, p.deadline_at) END, s.name, p.id
LIMIT $2
