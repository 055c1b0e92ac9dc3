-- Due runs in the order they are served; looks at no run that is not due. A workflow that is not served for all workspaces ($5) is served
-- for those in $6 to $8; runs of others are passed over.
SELECT r.workspace, r.id
FROM unnest($1::int4[], $2::int4[], $5::bool[]) AS s (workflow, workflow_version, is_for_all)
    CROSS JOIN unnest(ARRAY[0, 1, 2]::int2[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT workspace, id, wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND priority = p.priority AND wake_at <= $3
            AND (s.is_for_all OR (workflow, workflow_version, workspace) IN (
                SELECT o.workflow, o.workflow_version, o.workspace
                FROM unnest($6::int4[], $7::int4[], $8::int4[]) AS o (workflow, workflow_version, workspace)))
        ORDER BY wake_at, id
        LIMIT $4
    ) AS r
ORDER BY p.priority, r.wake_at, r.id
LIMIT $4
