-- All of them: a statement of its own, so that it sees what was committed before the operations were locked.
SELECT i.workspace, i.id,
    (SELECT count(*)
    FROM posts AS a
    WHERE a.workspace = i.workspace AND a.id > 'op_' || replace(i.id::text, '-', '') || ':'
        AND a.id < 'op_' || replace(i.id::text, '-', '') || chr(59))
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8) AS i
