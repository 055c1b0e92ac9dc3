-- All of one workspace, by walking over the journal: asked for rarely, and not worth an index that each entry would pay for.
SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM hapax_notes NOT INDEXED
WHERE place > ?2 AND workspace = ?1
ORDER BY place
LIMIT ?3
