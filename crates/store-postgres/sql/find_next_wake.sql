SELECT min(r.wake_at)
FROM unnest($1::int4[], $2::int4[]) AS s (workflow, workflow_version)
    CROSS JOIN unnest(ARRAY[0, 1, 2]::int2[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND priority = p.priority
            AND wake_at IS NOT NULL
        ORDER BY wake_at
        LIMIT 1
    ) AS r
