SELECT place FROM hapax_hooks INDEXED BY hapax_hooks_processed
WHERE status > 0 AND received_at < ?1
ORDER BY received_at, place
LIMIT ?2
