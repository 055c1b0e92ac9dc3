-- In the order of workspace names and ids, after a place; the nil id names nothing. Ended before $3, not the newest of its step on its entity, and
-- all its after-effects settled. The step is asked for as a range, as in find_last_operations. The ids of
-- after-effects begin with that of the operation and a colon, which is character 58.
SELECT o.workspace, s.name, o.id,
    o.status BETWEEN 1 AND 4 AND o.at < $3
    AND (SELECT n.id
        FROM operations AS n
        WHERE n.workspace = o.workspace AND n.kind = o.kind AND n.entity = o.entity AND n.step >= o.step AND n.step <= o.step
        ORDER BY n.step DESC, n.version DESC, n.id DESC
        LIMIT 1) <> o.id
    AND coalesce(
        (SELECT min(a.status)
        FROM posts AS a
        WHERE a.workspace = o.workspace AND a.id > 'op_' || replace(o.id::text, '-', '') || ':'
            AND a.id < 'op_' || replace(o.id::text, '-', '') || chr(59)) >= 2, true)
FROM (SELECT id, name FROM workspaces WHERE name >= $1 ORDER BY name) AS s
    CROSS JOIN LATERAL (
        SELECT *
        FROM operations
        WHERE workspace = s.id AND id > CASE WHEN s.name > $1 THEN '00000000-0000-0000-0000-000000000000' ELSE $2::uuid END
        ORDER BY id
        LIMIT $4
    ) AS o
ORDER BY s.name, o.id
LIMIT $4
