-- Locked ones that stand alone, with the keys that name them, the tokens for them and those who waited; but for those that an open
-- run has begun to wait for meanwhile. Answers with them.
WITH gone AS (
    DELETE FROM promises AS p
    USING (SELECT * FROM unnest($2::int4[], $3::text[]) AS u (workspace, id) LIMIT $1::int8) AS i
    WHERE p.workspace = i.workspace AND p.id = i.id
        AND coalesce(
            (SELECT bool_and(r.closed_at IS NOT NULL)
            FROM promise_waiters AS w
                CROSS JOIN LATERAL (SELECT closed_at FROM runs WHERE workspace = w.workspace AND id = w.run OFFSET 0) AS r
            WHERE w.workspace = i.workspace AND w.promise = i.id), true)
    RETURNING p.workspace, p.id
), freed AS (
    DELETE FROM keys AS k USING gone AS g WHERE k.workspace = g.workspace AND k.promise = g.id
), void AS (
    DELETE FROM settle_tokens AS t USING gone AS g WHERE t.workspace = g.workspace AND t.promise = g.id
), left_behind AS (
    DELETE FROM promise_waiters AS w USING gone AS g WHERE w.workspace = g.workspace AND w.promise = g.id
)
SELECT id FROM gone
