SELECT o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.from_status, o.to_status,
    o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.run, o.version, o.attempt, o.owner, o.began_at, o.status, o.at, o.value, o.input
FROM hapax_operations AS o INDEXED BY hapax_operations_by_key
WHERE o.workspace = ?1 AND o.key = ?2
