-- The settled after-effects of these locked operations, but for those that somebody is at.
SELECT i.workspace, i.id, a.id
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
    CROSS JOIN LATERAL (
        SELECT id
        FROM posts
        WHERE workspace = i.workspace AND id > 'op_' || replace(i.id::text, '-', '') || ':'
            AND id < 'op_' || replace(i.id::text, '-', '') || chr(59) AND status >= 2
        FOR UPDATE SKIP LOCKED
    ) AS a
