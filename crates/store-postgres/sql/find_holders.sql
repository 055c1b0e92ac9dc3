-- The operations that hold these entities.
SELECT o.workspace, o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.input,
    o.from_status, o.to_status, o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.has_run, o.version, o.attempt, o.owner,
    o.began_at, o.status, o.at, o.outcome
FROM (SELECT * FROM unnest($2::int4[], $3::text[], $4::text[]) AS u (workspace, kind, entity) LIMIT $1::int8) AS i
    JOIN operations AS o ON o.workspace = i.workspace AND o.kind = i.kind AND o.entity = i.entity
        AND o.claim_into IS NOT NULL AND o.status IN (0, 5)
