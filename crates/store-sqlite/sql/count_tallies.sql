-- Effects that happened more than once, or may have, by class and by how often. The strongest evidence of an attempt counts.
-- ?1 is the workspace or NULL; 0 is may have happened, 2 is happened.
SELECT class, happened, may_have_happened, count(*)
FROM (
    SELECT min(class) AS class, sum(occurrence = 2) AS happened, sum(occurrence = 0) AS may_have_happened
    FROM (
        SELECT workspace, effect, min(effect_class) AS class, max(occurrence) AS occurrence
        FROM hapax_notes INDEXED BY hapax_notes_of_effects
        WHERE effect IS NOT NULL AND (?1 IS NULL OR workspace = ?1)
        GROUP BY workspace, effect, attempt
    )
    GROUP BY workspace, effect
)
WHERE happened + may_have_happened > 1
GROUP BY class, happened, may_have_happened
ORDER BY class, happened, may_have_happened
