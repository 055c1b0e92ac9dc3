-- Due runs in the order they are served; looks at no run that is not due.
SELECT r.workspace, r.id
FROM unnest($1::int4[], $2::int4[]) AS s (workflow, workflow_version)
    CROSS JOIN unnest(ARRAY[0, 1, 2]::int2[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT workspace, id, wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND priority = p.priority AND wake_at <= $3
        ORDER BY wake_at, id
        LIMIT $4
    ) AS r
ORDER BY p.priority, r.wake_at, r.id
LIMIT $4
