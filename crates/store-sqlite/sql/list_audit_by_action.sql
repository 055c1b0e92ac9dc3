-- A page of the audit log by action. ?1 workspace, ?2 and ?3 where it begins, ?4 until when, ?5 run, ?6 credential, ?7 person, ?8 action, ?9 subject.
SELECT place, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt, occurrence
FROM hapax_notes INDEXED BY hapax_audit_by_action
WHERE workspace = ?1 AND actor IS NOT NULL AND (at, place) > (?2, ?3) AND (?4 IS NULL OR at < ?4)
    AND (?5 IS NULL OR run = ?5) AND (?6 IS NULL OR audit_credential = ?6) AND (?7 IS NULL OR audit_person = ?7) AND audit_action = ?8 AND (?9 IS NULL OR audit_subject = ?9)
ORDER BY at, place
LIMIT ?10
