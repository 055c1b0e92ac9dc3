SELECT r.number, r.id, r.fingerprint, r.method, r.path, r.outline, r.first_seen_at,
    r.status, r.token, r.until, r.answered_at, r.expires_at, r.free_at,
    a.status, a.headers, a.body
FROM hapax_requests AS r LEFT JOIN hapax_answers AS a ON a.request = r.number
WHERE r.workspace = ?1 AND r.caller = ?2 AND r.key = ?3
