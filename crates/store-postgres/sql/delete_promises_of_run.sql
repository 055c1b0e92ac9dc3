-- With the keys that name them and the tokens for them, and what the run waits for.
WITH gone AS (
    DELETE FROM promises WHERE workspace = $1 AND run = $2 RETURNING workspace, id
), freed AS (
    DELETE FROM keys AS k USING gone AS g WHERE k.workspace = g.workspace AND k.promise = g.id
), void AS (
    DELETE FROM settle_tokens AS t USING gone AS g WHERE t.workspace = g.workspace AND t.promise = g.id
)
DELETE FROM promise_waiters WHERE workspace = $1 AND run = $2
