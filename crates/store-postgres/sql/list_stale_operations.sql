-- Of all workspaces, the longest unheard first.
SELECT w.name, o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.input,
    o.from_status, o.to_status, o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.has_run, o.version, o.attempt, o.owner,
    o.began_at, o.status, o.at, o.outcome
FROM operations AS o JOIN workspaces AS w ON w.id = o.workspace
WHERE o.module = $1 AND o.status = 0 AND o.at < $2
ORDER BY o.at, o.id
LIMIT $3
