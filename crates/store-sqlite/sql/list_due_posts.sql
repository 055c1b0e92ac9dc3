SELECT p.workspace, w.name, p.id, p.run, p.target, p.created_at, p.attempts, p.status, p.at, p.owner, p.failure, p.payload
FROM hapax_posts AS p INDEXED BY hapax_posts_due
    CROSS JOIN hapax_workspaces AS w ON w.id = p.workspace
WHERE p.target = ?1 AND p.status < 2 AND p.at <= ?2
ORDER BY p.at, p.id
LIMIT ?3
