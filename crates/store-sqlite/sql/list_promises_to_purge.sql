-- Those that stand alone and that no open run waits for, the longest over first, those that were over together in their order.
SELECT p.workspace, p.id
FROM hapax_promises AS p INDEXED BY hapax_promises_alone
    CROSS JOIN hapax_workspaces AS s ON s.id = p.workspace
WHERE p.run = x'00000000000000000000000000000000' AND p.over_at < ?1
    AND NOT EXISTS (
        SELECT 1
        FROM hapax_promise_waiters AS w CROSS JOIN hapax_runs AS r ON r.workspace = w.workspace AND r.id = w.run
        WHERE w.workspace = p.workspace AND w.promise = p.id AND r.closed_at IS NULL)
ORDER BY p.over_at, s.name, p.id
LIMIT ?2
