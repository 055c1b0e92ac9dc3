-- If the key lives.
SELECT p.id, p.run, p.created_at, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.create_key, p.about,
    p.complete_key, p.said
FROM hapax_keys AS k CROSS JOIN hapax_promises AS p ON p.workspace = k.workspace AND p.id = k.promise
WHERE k.workspace = ?1 AND k.kind = 1 AND k.key = ?2 AND (k.expires_at IS NULL OR k.expires_at > ?3)
