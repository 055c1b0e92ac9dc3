-- Effects that happened more than once, or may have, by class and by how often. The strongest evidence of an attempt counts. A negative attempt
-- means that the effect was found by its key after so many attempts: one of those made it, so it adds to the count only if none is known to have.
-- ?1 is the workspace or NULL; 0 is may have happened, 2 is happened.
SELECT class, happened, may_have_happened, count(*)
FROM (
    SELECT class, known + is_found AS happened, open - min(is_found, open_until_found) AS may_have_happened
    FROM (
        SELECT min(class) AS class,
            sum(attempt >= 0 AND occurrence = 2) AS known,
            sum(attempt >= 0 AND occurrence = 0) AS open,
            sum(attempt BETWEEN 0 AND found_after AND occurrence = 0) AS open_until_found,
            max(found_after) > 0 AND sum(attempt BETWEEN 0 AND found_after AND occurrence = 2) = 0 AS is_found
        FROM (
            SELECT workspace, effect, attempt, min(effect_class) AS class, max(occurrence) AS occurrence,
                coalesce(-max(CASE WHEN attempt < 0 THEN attempt END) OVER (PARTITION BY workspace, effect), 0) AS found_after
            FROM hapax_notes INDEXED BY hapax_notes_of_effects
            WHERE effect IS NOT NULL AND (?1 IS NULL OR workspace = ?1)
            GROUP BY workspace, effect, attempt
        )
        GROUP BY workspace, effect
    )
)
WHERE happened + may_have_happened > 1
GROUP BY class, happened, may_have_happened
ORDER BY class, happened, may_have_happened
