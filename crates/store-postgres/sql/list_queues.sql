-- Due time of the first run of each queue. A queue is one workflow version and priority. A workflow without open runs costs one
-- look, and one whose runs have one priority costs two: nothing is greater than NULL, so no look is taken after the last priority.
-- A workflow that is not served for all workspaces ($3) is served for those in $4 to $6.
SELECT q.workflow, q.workflow_version, q.wake_at
FROM unnest($1::int4[], $2::int4[], $3::bool[]) AS s (workflow, workflow_version, is_for_all)
    CROSS JOIN LATERAL (
        SELECT priority, wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND wake_at IS NOT NULL
            AND (s.is_for_all OR (workflow, workflow_version, workspace) IN (
                SELECT o.workflow, o.workflow_version, o.workspace
                FROM unnest($4::int4[], $5::int4[], $6::int4[]) AS o (workflow, workflow_version, workspace)))
        ORDER BY priority, wake_at
        LIMIT 1
    ) AS a
    LEFT JOIN LATERAL (
        SELECT priority, wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND priority > a.priority AND wake_at IS NOT NULL
            AND (s.is_for_all OR (workflow, workflow_version, workspace) IN (
                SELECT o.workflow, o.workflow_version, o.workspace
                FROM unnest($4::int4[], $5::int4[], $6::int4[]) AS o (workflow, workflow_version, workspace)))
        ORDER BY priority, wake_at
        LIMIT 1
    ) AS b ON true
    LEFT JOIN LATERAL (
        SELECT priority, wake_at
        FROM runs
        WHERE workflow = s.workflow AND workflow_version = s.workflow_version AND priority > b.priority AND wake_at IS NOT NULL
            AND (s.is_for_all OR (workflow, workflow_version, workspace) IN (
                SELECT o.workflow, o.workflow_version, o.workspace
                FROM unnest($4::int4[], $5::int4[], $6::int4[]) AS o (workflow, workflow_version, workspace)))
        ORDER BY priority, wake_at
        LIMIT 1
    ) AS c ON true
    CROSS JOIN LATERAL (VALUES
        (s.workflow, s.workflow_version, a.wake_at),
        (s.workflow, s.workflow_version, b.wake_at),
        (s.workflow, s.workflow_version, c.wake_at)
    ) AS q (workflow, workflow_version, wake_at)
WHERE q.wake_at IS NOT NULL
