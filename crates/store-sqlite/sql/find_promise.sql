SELECT p.id, p.run, p.created_at, p.deadline_at, p.status, p.settled_at, p.value, p.key, p.keep_key_for_ms, p.create_key, p.about,
    p.complete_key, p.said
FROM hapax_promises AS p
WHERE p.workspace = ?1 AND p.id = ?2
