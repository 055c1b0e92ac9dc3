-- One that is there already is left as it is.
INSERT INTO posts (workspace, id, run, target, created_at, attempts, status, at, owner, failure, payload)
SELECT workspace, id, run, target, created_at, attempts, status, at, owner, failure, payload
FROM unnest($1::int4[], $2::text[], $3::uuid[], $4::text[], $5::int8[], $6::int4[], $7::int2[], $8::int8[], $9::uuid[],
    $10::text[], $11::text[])
    AS u (workspace, id, run, target, created_at, attempts, status, at, owner, failure, payload)
ON CONFLICT (workspace, id) DO NOTHING
