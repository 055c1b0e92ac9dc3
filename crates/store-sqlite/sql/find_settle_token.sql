SELECT s.name, t.promise, t.expires_at
FROM hapax_settle_tokens AS t CROSS JOIN hapax_workspaces AS s ON s.id = t.workspace
WHERE t.digest = ?1
