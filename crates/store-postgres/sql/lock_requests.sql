-- In the order of the input, which is that of the keys; each with its place there.
SELECT i.n, r.id, r.fingerprint, r.method, r.path, r.outline, r.first_seen_at, r.status, r.token, r.until,
    r.answered_at, r.expires_at, r.free_at, r.answer_status, r.headers, r.body
FROM (SELECT * FROM unnest($2::int4[], $3::int4[], $4::text[], $5::text[]) AS u (n, workspace, caller, key) LIMIT $1::int8) AS i
    JOIN requests AS r ON r.workspace = i.workspace AND r.caller = i.caller AND r.key = i.key
FOR UPDATE OF r
