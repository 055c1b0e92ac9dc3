-- With the keys that name them and the tokens for them, and what the runs wait for.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest($2::int4[], $3::uuid[]) AS u (workspace, id) LIMIT $1::int8
), gone AS (
    DELETE FROM promises AS p USING input AS i WHERE p.workspace = i.workspace AND p.run = i.id RETURNING p.workspace, p.id
), freed AS (
    DELETE FROM keys AS k USING gone AS g WHERE k.workspace = g.workspace AND k.promise = g.id
), void AS (
    DELETE FROM settle_tokens AS t USING gone AS g WHERE t.workspace = g.workspace AND t.promise = g.id
)
DELETE FROM promise_waiters AS w USING input AS i WHERE w.workspace = i.workspace AND w.run = i.id
