-- What waits, when the oldest of it was made, and what was given up; each counted up to ?1.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM hapax_posts INDEXED BY hapax_posts_due WHERE status < 2 LIMIT ?1)),
    (SELECT min(made) FROM (SELECT created_at AS made FROM hapax_posts INDEXED BY hapax_posts_due WHERE status < 2 LIMIT ?1)),
    (SELECT count(*) FROM (SELECT 1 FROM hapax_posts INDEXED BY hapax_posts_undelivered WHERE status <> 2 AND status = 3 LIMIT ?1))
