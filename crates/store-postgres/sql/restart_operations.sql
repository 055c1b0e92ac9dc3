-- Locked ones, which are tried again. Only the workspace and the id stay for certain.
UPDATE operations AS o
SET kind = i.kind, entity = i.entity, home = i.home, workflow = i.workflow, module = i.module, step = i.step, requester = i.requester,
    actor = i.actor, role = i.role, key = i.key, fingerprint = i.fingerprint, input = i.input, from_status = i.from_status,
    to_status = i.to_status, claim_into = i.claim_into, revert_to = i.revert_to, recovery = i.recovery,
    irreversible = i.irreversible, document = i.document, effect_of = i.effect_of, may_repeat = i.may_repeat,
    done_before = i.done_before, grace = i.grace, tries = i.tries, tries_before = i.tries_before, settled = i.settled, has_run = i.has_run, version = i.version, attempt = i.attempt, owner = i.owner,
    began_at = i.began_at, status = i.status, at = i.at, outcome = i.outcome
FROM (SELECT * FROM unnest($1::int4[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::int2[], $12::text[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[],
    $18::text[], $19::int2[], $20::bool[], $21::int8[], $22::uuid[], $23::bool[], $24::bool[], $25::int8[], $26::int4[],
    $27::int4[], $28::bool[], $29::bool[], $30::int8[], $31::int4[], $32::uuid[], $33::int8[], $34::int2[], $35::int8[], $36::text[])
    AS u (workspace, id, kind, entity, home, workflow, module, step, requester, actor, role, key, fingerprint, input,
    from_status, to_status, claim_into, revert_to, recovery, irreversible, document, effect_of, may_repeat, done_before, grace, tries, tries_before, settled, has_run, version, attempt, owner, began_at, status, at,
    outcome) LIMIT $37::int8) AS i
WHERE o.workspace = i.workspace AND o.id = i.id
