-- Highest number of a try under an effect key.
SELECT coalesce(max(attempt), 0)
FROM hapax_notes INDEXED BY hapax_notes_of_effects
WHERE workspace = ?1 AND effect = ?2 AND attempt > 0
