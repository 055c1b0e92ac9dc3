INSERT INTO operations (workspace, id, kind, entity, home, workflow, module, step, requester, actor, role, key, fingerprint, input,
    from_status, to_status, claim_into, revert_to, recovery, irreversible, document, effect_of, may_repeat, done_before, grace, tries, tries_before, settled, has_run, version, attempt, owner, began_at, status, at,
    outcome)
SELECT workspace, id, kind, entity, home, workflow, module, step, requester, actor, role, key, fingerprint, input,
    from_status, to_status, claim_into, revert_to, recovery, irreversible, document, effect_of, may_repeat, done_before, grace, tries, tries_before, settled, has_run, version, attempt, owner, began_at, status, at,
    outcome
FROM unnest($1::int4[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::int2[], $12::text[], $13::bytea[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[],
    $19::int2[], $20::bool[], $21::int8[], $22::uuid[], $23::bool[], $24::bool[], $25::int8[], $26::int4[], $27::int4[], $28::bool[],
    $29::bool[], $30::int8[], $31::int4[], $32::uuid[], $33::int8[], $34::int2[], $35::int8[], $36::text[])
    AS u (workspace, id, kind, entity, home, workflow, module, step, requester, actor, role, key, fingerprint, input,
    from_status, to_status, claim_into, revert_to, recovery, irreversible, document, effect_of, may_repeat, done_before, grace, tries, tries_before, settled, has_run, version, attempt, owner, began_at, status, at,
    outcome)
