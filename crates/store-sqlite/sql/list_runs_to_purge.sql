-- In the order of ids, whatever the workspace; old, with a parent that is closed or gone, all its after-effects settled and
-- its doubts ruled on.
SELECT f.id, f.workspace,
    r.closed_at < ?2 AND NOT EXISTS (
        SELECT 1 FROM hapax_runs AS p WHERE p.workspace = f.workspace AND p.id = f.parent AND p.closed_at IS NULL)
    AND NOT EXISTS (
        SELECT 1 FROM hapax_posts AS a INDEXED BY hapax_posts_of_run
        WHERE a.workspace = f.workspace AND a.run = f.id AND a.status < 2)
    AND NOT EXISTS (
        SELECT 1 FROM hapax_promises AS d INDEXED BY hapax_promises_of_run
        WHERE d.workspace = f.workspace AND d.run = f.id AND d.status = 0 AND d.id LIKE '%~doubt-%')
FROM hapax_run_facts AS f
    CROSS JOIN hapax_runs AS r ON r.workspace = f.workspace AND r.id = f.id
WHERE f.id > ?1
ORDER BY f.id
LIMIT ?3
