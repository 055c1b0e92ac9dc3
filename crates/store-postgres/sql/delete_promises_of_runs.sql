-- With the keys that name them and the tokens for them, and what the runs wait for. Arrays, unlike joins, leave the planner no choice;
-- what they find too much, of other workspaces, the question behind them leaves out.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8
), gone AS (
    DELETE FROM promises AS p USING input AS i WHERE p.workspace = i.workspace AND p.run = i.id RETURNING p.workspace, p.id
), freed AS (
    DELETE FROM keys AS k
    WHERE k.workspace = ANY ($2) AND k.promise IS NOT NULL AND k.promise = ANY (ARRAY(SELECT id FROM gone))
        AND ((k.workspace, k.promise) IN (SELECT workspace, id FROM gone)) IS TRUE
), void AS (
    DELETE FROM settle_tokens AS t
    WHERE t.workspace = ANY ($2) AND t.promise = ANY (ARRAY(SELECT id FROM gone))
        AND ((t.workspace, t.promise) IN (SELECT workspace, id FROM gone)) IS TRUE
)
DELETE FROM promise_waiters AS w USING input AS i WHERE w.workspace = i.workspace AND w.run = i.id
