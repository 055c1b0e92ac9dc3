-- A page of the audit log by run. $1 workspace, $2 and $3 where it begins, $4 until when, $5 run, $6 credential, $7 person, $8 action, $9 subject.
SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM notes
WHERE workspace = $1 AND actor IS NOT NULL AND (at, place) > ($2, $3) AND ($4::int8 IS NULL OR at < $4::int8)
    AND run = $5::uuid AND ($6::text IS NULL OR audit_credential(origin) = $6::text) AND ($7::text IS NULL OR audit_person(origin, actor) = $7::text) AND ($8::text IS NULL OR audit_action(body) = $8::text) AND ($9::text IS NULL OR audit_subject(body) = $9::text)
ORDER BY at, place
LIMIT $10
