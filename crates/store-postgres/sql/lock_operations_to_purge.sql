-- One that was begun again meanwhile, or that somebody else is at, is left for another time.
SELECT o.workspace, o.id
FROM unnest($1::int4[], $2::uuid[]) AS i (workspace, id)
    CROSS JOIN LATERAL (
        SELECT workspace, id
        FROM operations
        WHERE workspace = i.workspace AND id = i.id AND status BETWEEN 1 AND 4 AND at < $3
        FOR UPDATE SKIP LOCKED
    ) AS o
