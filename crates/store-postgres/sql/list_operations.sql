-- The newest first, before an id; $4 is the kind or NULL, $5 the step or NULL, $6 the entity or NULL, $7 the status or NULL.
SELECT o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.input,
    o.from_status, o.to_status, o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.has_run, o.version, o.attempt, o.owner,
    o.began_at, o.status, o.at, o.outcome
FROM operations AS o
WHERE o.workspace = $1 AND o.id < $2 AND ($4::text IS NULL OR o.kind = $4) AND ($5::text IS NULL OR o.step = $5)
    AND ($6::text IS NULL OR o.entity = $6) AND ($7::int2 IS NULL OR o.status = $7)
ORDER BY o.id DESC
LIMIT $3
