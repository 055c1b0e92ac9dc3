SELECT min(r.wake_at)
FROM unnest($1::int4[], $2::int4[], $3::bool[]) AS s (workflow, workflow_version, is_for_all)
    CROSS JOIN unnest(ARRAY[0, 1, 2]::int2[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND priority = p.priority
            AND wake_at IS NOT NULL
            AND (s.is_for_all OR (workflow, workflow_version, workspace) IN (
                SELECT o.workflow, o.workflow_version, o.workspace
                FROM unnest($4::int4[], $5::int4[], $6::int4[]) AS o (workflow, workflow_version, workspace)))
        ORDER BY wake_at
        LIMIT 1
    ) AS r
