-- The index that counts effects finds those of one effect, in this order. A negative attempt means that the effect was found by its key after so many.
SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM hapax_notes INDEXED BY hapax_notes_of_effects
WHERE workspace = ?1 AND effect = ?2 AND attempt > ?3
ORDER BY attempt, occurrence, effect_class, place
LIMIT ?4
