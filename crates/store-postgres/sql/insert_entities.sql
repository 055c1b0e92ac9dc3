INSERT INTO entities (workspace, kind, id, status, version, created_at, updated_at, data)
SELECT workspace, kind, id, status, version, updated_at, updated_at, data
FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::int8[], $7::text[])
    AS u (workspace, kind, id, status, version, updated_at, data)
