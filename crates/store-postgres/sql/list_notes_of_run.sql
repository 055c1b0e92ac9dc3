-- $5 asks for those of people only.
SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM notes
WHERE workspace = $1 AND run = $4 AND place > $2 AND (actor IS NOT NULL OR NOT $5::bool)
ORDER BY place
LIMIT $3
