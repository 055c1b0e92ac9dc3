SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM notes
WHERE workspace = $1 AND actor IS NOT NULL AND place > $2
ORDER BY place
LIMIT $3
