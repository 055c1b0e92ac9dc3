-- Locked ones.
UPDATE entities AS e
SET status = i.status, version = i.version, updated_at = i.updated_at, data = i.data
FROM (SELECT * FROM unnest($2::int4[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::int8[], $8::text[])
    AS u (workspace, kind, id, status, version, updated_at, data) LIMIT $1::int8) AS i
WHERE e.workspace = i.workspace AND e.kind = i.kind AND e.id = i.id
