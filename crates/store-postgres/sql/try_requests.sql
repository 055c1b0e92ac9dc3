-- Those that are new under their keys, in the order of the input. Whoever wants a key that another transaction is about to take
-- waits for the outcome of that transaction, and finds its request afterwards.
INSERT INTO requests (workspace, caller, key, id, fingerprint, first_seen_at, status, token, until, method, path, outline)
SELECT workspace, caller, key, id, fingerprint, first_seen_at, status, token, until, method, path, outline
FROM (
    SELECT *
    FROM unnest($2::int4[], $3::text[], $4::text[], $5::uuid[], $6::bytea[], $7::int8[], $8::int2[], $9::int8[], $10::int8[],
        $11::text[], $12::text[], $13::text[])
        AS u (workspace, caller, key, id, fingerprint, first_seen_at, status, token, until, method, path, outline)
    LIMIT $1::int8
) AS i
ON CONFLICT (workspace, caller, key) DO NOTHING
