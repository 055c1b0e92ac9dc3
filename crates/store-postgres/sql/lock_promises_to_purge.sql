-- What somebody else is at is left for another time.
SELECT p.workspace, p.id
FROM unnest($1::int4[], $2::text[]) AS i (workspace, id)
    CROSS JOIN LATERAL (
        SELECT workspace, id FROM promises WHERE workspace = i.workspace AND id = i.id FOR UPDATE SKIP LOCKED
    ) AS p
