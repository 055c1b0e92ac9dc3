-- In the order of ids; ended before ?3, with another of its step on its entity that came after it, and all its after-effects settled.
-- The ids of those begin with its own and a colon, which is character 58.
SELECT o.id,
    o.status BETWEEN 1 AND 4 AND o.at < ?3
    AND EXISTS (
        SELECT 1 FROM hapax_operations AS n INDEXED BY hapax_operations_of_step
        WHERE n.workspace = o.workspace AND n.kind = o.kind AND n.entity = o.entity AND n.step = o.step
            AND (n.version, n.id) > (o.version, o.id))
    AND NOT EXISTS (
        SELECT 1 FROM hapax_posts AS a
        WHERE a.workspace = o.workspace AND a.id > 'op_' || lower(hex(o.id)) || ':' AND a.id < 'op_' || lower(hex(o.id)) || char(59)
            AND a.status < 2)
FROM hapax_operations AS o
WHERE o.workspace = ?1 AND o.id > ?2
ORDER BY o.id
LIMIT ?4
