-- Its own, then those that stand alone and that it waits for.
SELECT p.id, p.run, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.created_at, p.create_key, p.about,
    p.complete_key, p.said
FROM (
    SELECT 0 AS place, o.*
    FROM workspaces AS s
        JOIN promises AS o ON o.workspace = s.id
    WHERE s.name = $1 AND o.run = $2
    UNION ALL
    SELECT 1 AS place, o.*
    FROM workspaces AS s
        JOIN promise_waiters AS w ON w.workspace = s.id
        JOIN promises AS o ON o.workspace = w.workspace AND o.id = w.promise
    WHERE s.name = $1 AND w.run = $2
) AS p
ORDER BY p.place, p.id
