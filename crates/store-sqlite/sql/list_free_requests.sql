SELECT number FROM (
    SELECT number, free_at AS since FROM hapax_requests WHERE free_at <= ?1
    UNION ALL
    -- Abandoned: what is in flight came at most as late as its hold ended.
    SELECT number, until FROM hapax_requests WHERE status = 0 AND first_seen_at <= ?3 AND until <= ?3
)
ORDER BY since LIMIT ?2
