-- Locked ones.
UPDATE operations AS o
SET status = i.status, at = i.at, outcome = i.outcome, tries = i.tries, settled = i.settled, tries_before = i.tries_before
FROM (SELECT * FROM unnest($2::int4[], $3::uuid[], $4::int2[], $5::int8[], $6::text[], $7::int4[], $8::bool[], $9::int4[])
    AS u (workspace, id, status, at, outcome, tries, settled, tries_before) LIMIT $1::int8) AS i
WHERE o.workspace = i.workspace AND o.id = i.id
