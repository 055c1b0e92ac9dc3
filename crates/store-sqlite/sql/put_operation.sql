-- One that is tried again is written anew.
INSERT INTO hapax_operations (
    workspace, id, kind, entity, home, workflow, module, step, requester, actor, role, key, fingerprint, from_status, to_status,
    claim_into, revert_to, recovery, irreversible, document, effect_of, may_repeat, done_before, grace, tries, tries_before, settled, run, version, attempt, owner, began_at, status, at, value, input
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36
)
ON CONFLICT (workspace, id) DO UPDATE
SET kind = excluded.kind, entity = excluded.entity, home = excluded.home, workflow = excluded.workflow, module = excluded.module,
    step = excluded.step, requester = excluded.requester, actor = excluded.actor, role = excluded.role, key = excluded.key,
    fingerprint = excluded.fingerprint, from_status = excluded.from_status, to_status = excluded.to_status, claim_into =
    excluded.claim_into, revert_to = excluded.revert_to, recovery = excluded.recovery, irreversible = excluded.irreversible, document = excluded.document, effect_of =
    excluded.effect_of, may_repeat = excluded.may_repeat, done_before = excluded.done_before, grace = excluded.grace, tries =
    excluded.tries, tries_before = excluded.tries_before, settled = excluded.settled, run
    = excluded.run, version = excluded.version, attempt = excluded.attempt, owner = excluded.owner, began_at = excluded.began_at,
    status = excluded.status, at = excluded.at, value = excluded.value, input = excluded.input
