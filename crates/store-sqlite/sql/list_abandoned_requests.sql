-- What is in flight came at most as late as its hold ended.
SELECT number FROM hapax_requests
WHERE status = 0 AND first_seen_at <= ?1 AND until <= ?1
ORDER BY first_seen_at LIMIT ?2
