-- Steps of a generation whose records retries dropped, with the last attempt of those.
SELECT step, max(attempt)
FROM hapax_notes INDEXED BY hapax_notes_of_reruns
WHERE workspace = ?1 AND run = ?2 AND generation = ?3 AND is_rerun = 1
GROUP BY step
ORDER BY step
