-- ?5 is 1 for those of people only.
SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM hapax_notes INDEXED BY hapax_notes_of_run
WHERE workspace = ?1 AND run = ?4 AND place > ?2 AND (actor IS NOT NULL OR ?5 = 0)
ORDER BY place
LIMIT ?3
