SELECT r.id, r.fingerprint, r.method, r.path, r.outline, r.first_seen_at, r.status, r.token, r.until,
    r.answered_at, r.expires_at, r.free_at, r.answer_status, r.headers, r.body
FROM requests AS r
WHERE r.workspace = $1 AND r.caller = $2 AND r.key = $3
