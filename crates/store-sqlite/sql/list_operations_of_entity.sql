-- As list_operations, of one entity.
SELECT o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.from_status, o.to_status,
    o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.run, o.version, o.attempt, o.owner, o.began_at, o.status, o.at, o.value, o.input
FROM hapax_operations AS o INDEXED BY hapax_operations_of_step
WHERE o.workspace = ?1 AND o.id < ?2 AND o.kind = ?3 AND o.entity = ?4 AND (?5 IS NULL OR o.step = ?5) AND (?6 IS NULL OR o.status = ?6)
ORDER BY o.id DESC
LIMIT ?7
