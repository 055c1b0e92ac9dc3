-- Like list_operations, for the pending ones: those in flight in all workspaces, sorted by id.
SELECT o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.from_status, o.to_status,
    o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.run, o.version, o.attempt, o.owner, o.began_at, o.status, o.at, o.value, o.input
FROM hapax_operations AS o INDEXED BY hapax_operations_pending
WHERE o.module > '' AND o.workspace = ?1 AND o.id < ?2 AND (?3 IS NULL OR o.kind = ?3) AND (?4 IS NULL OR o.entity = ?4)
    AND (?5 IS NULL OR o.step = ?5) AND ?6 = 0 AND o.status = 0
ORDER BY o.id DESC
LIMIT ?7
