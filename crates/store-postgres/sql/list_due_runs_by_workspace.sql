-- The longest due runs of each of a few workspaces, beginning with the one after $4: from one workspace to the next
-- through the index, whatever lies between. A workspace without due runs, or that is not served, is in the answer with an empty row.
WITH RECURSIVE served AS (
    SELECT s.workflow, s.workflow_version, s.is_for_all, p.priority
    FROM unnest($1::int4[], $2::int4[], $7::bool[]) AS s (workflow, workflow_version, is_for_all)
        CROSS JOIN unnest(ARRAY[0, 1, 2]::int2[]) AS p (priority)
), found (workflow, workflow_version, is_for_all, priority, workspace, number) AS (
    SELECT s.workflow, s.workflow_version, s.is_for_all, s.priority, $4::int4, 0 FROM served AS s
    UNION ALL
    SELECT f.workflow, f.workflow_version, f.is_for_all, f.priority, n.workspace, f.number + 1
    FROM found AS f
        CROSS JOIN LATERAL (
            SELECT r.workspace
            FROM runs AS r
            WHERE r.workflow = f.workflow AND r.workflow_version = f.workflow_version AND r.priority = f.priority
                AND r.workspace > f.workspace AND r.wake_at IS NOT NULL AND r.lease_owner IS NULL
            ORDER BY r.workspace
            LIMIT 1
        ) AS n
    WHERE f.number < $5::int4
)
SELECT f.priority, f.workspace, f.number, r.id, r.place
FROM found AS f
    LEFT JOIN LATERAL (
        SELECT d.id, row_number() OVER (ORDER BY d.wake_at, d.id) AS place
        FROM (
            SELECT id, wake_at
            FROM runs
            WHERE workflow = f.workflow AND workflow_version = f.workflow_version AND priority = f.priority
                AND workspace = f.workspace AND wake_at <= $3 AND lease_owner IS NULL
                AND (f.is_for_all OR (f.workflow, f.workflow_version, f.workspace) IN (
                    SELECT o.workflow, o.workflow_version, o.workspace
                    FROM unnest($8::int4[], $9::int4[], $10::int4[]) AS o (workflow, workflow_version, workspace)))
            ORDER BY wake_at, id
            LIMIT $6
        ) AS d
    ) AS r ON true
WHERE f.number > 0
