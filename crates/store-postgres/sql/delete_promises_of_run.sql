-- With the keys that name them and the tokens for them, and what the run waits for. Arrays, unlike joins, leave the planner no choice.
WITH gone AS (
    DELETE FROM promises WHERE workspace = $1 AND run = $2 RETURNING id
), freed AS (
    DELETE FROM keys WHERE workspace = $1 AND promise IS NOT NULL AND promise = ANY (ARRAY(SELECT id FROM gone))
), void AS (
    DELETE FROM settle_tokens WHERE workspace = $1 AND promise = ANY (ARRAY(SELECT id FROM gone))
)
DELETE FROM promise_waiters WHERE workspace = $1 AND run = $2
