-- In their order, which that of their places follows.
INSERT INTO entity_notes (workspace, kind, entity, operation, at, actor, role, origin, body)
SELECT workspace, kind, entity, operation, at, actor, role, origin, body
FROM unnest($1::int4[], $2::text[], $3::text[], $4::uuid[], $5::int8[], $6::text[], $7::int2[], $8::text[], $9::text[])
    WITH ORDINALITY AS u (workspace, kind, entity, operation, at, actor, role, origin, body, n)
ORDER BY n
