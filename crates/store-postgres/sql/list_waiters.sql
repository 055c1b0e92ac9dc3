-- The runs that wait for promises that stand alone.
SELECT w.workspace, w.promise, w.run
FROM (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, id) LIMIT $1::int8) AS i
    JOIN promise_waiters AS w ON w.workspace = i.workspace AND w.promise = i.id
ORDER BY w.run
