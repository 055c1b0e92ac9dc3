-- One that was reopened meanwhile, or that somebody else is at, is left for another time.
SELECT r.workspace, r.id
FROM unnest($1::int4[], $2::uuid[]) AS i (workspace, id)
    CROSS JOIN LATERAL (
        SELECT workspace, id
        FROM runs
        WHERE workspace = i.workspace AND id = i.id AND closed_at < $3
        FOR UPDATE SKIP LOCKED
    ) AS r
