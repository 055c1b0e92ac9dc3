-- Locked ones that stand alone, with the keys that name them, the tokens for them and those who waited; but for those that an open
-- run has begun to wait for meanwhile. Answers with them. See delete_promises_of_runs.sql for the arrays.
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
    DELETE FROM keys AS k
    WHERE k.workspace = ANY ($2) AND k.promise IS NOT NULL AND k.promise = ANY ($3)
        AND ((k.workspace, k.promise) IN (SELECT workspace, id FROM gone)) IS TRUE
), void AS (
    DELETE FROM settle_tokens AS t
    WHERE t.workspace = ANY ($2) AND t.promise = ANY ($3)
        AND ((t.workspace, t.promise) IN (SELECT workspace, id FROM gone)) IS TRUE
), left_behind AS (
    DELETE FROM promise_waiters AS w
    WHERE w.workspace = ANY ($2) AND w.promise = ANY ($3)
        AND ((w.workspace, w.promise) IN (SELECT workspace, id FROM gone)) IS TRUE
)
SELECT id FROM gone
