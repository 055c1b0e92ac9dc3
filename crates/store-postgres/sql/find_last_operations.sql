-- The newest operation of each of these steps on its entity: the one that began at the highest version. The step is asked for as a range, so that only
-- the index of steps has the order: that of entities would serve as well while entities have few operations, and badly once they have many.
SELECT o.*
FROM (SELECT * FROM unnest($2::int4[], $3::text[], $4::text[], $5::text[]) AS u (workspace, kind, entity, step) LIMIT $1::int8) AS i
    CROSS JOIN LATERAL (
        SELECT o.workspace, o.id, o.kind, o.entity, o.home, o.workflow, o.module, o.step, o.requester, o.actor, o.role, o.key, o.fingerprint, o.input,
    o.from_status, o.to_status, o.claim_into, o.revert_to, o.recovery, o.irreversible, o.document, o.effect_of, o.may_repeat, o.done_before, o.grace, o.tries, o.tries_before, o.settled, o.has_run, o.version, o.attempt, o.owner,
    o.began_at, o.status, o.at, o.outcome
        FROM operations AS o
        WHERE o.workspace = i.workspace AND o.kind = i.kind AND o.entity = i.entity AND o.step >= i.step AND o.step <= i.step
        ORDER BY o.step DESC, o.version DESC, o.id DESC
        LIMIT 1
    ) AS o
