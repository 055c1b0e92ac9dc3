-- The audit log by credential, person, action and subject. The columns are computed from the stored entry, so entries from before have them, too;
-- model/note.rs (Noted::action, Noted::subject) says the same in code.

ALTER TABLE hapax_notes ADD COLUMN audit_credential TEXT AS (json_extract(origin, '$.credential'));
ALTER TABLE hapax_notes ADD COLUMN audit_person TEXT AS (coalesce(json_extract(origin, '$.person'), actor));
ALTER TABLE hapax_notes ADD COLUMN audit_action TEXT AS (
    CASE coalesce(json_extract(body, '$.did.what'), json_extract(body, '$.what'))
        WHEN 'set_up' THEN 'set_up:' || json_extract(body, '$.kind')
        ELSE coalesce(json_extract(body, '$.did.what'), json_extract(body, '$.what'))
    END);
ALTER TABLE hapax_notes ADD COLUMN audit_subject TEXT AS (
    CASE json_extract(body, '$.what')
        WHEN 'on_entity' THEN 'entity:' || json_extract(body, '$.kind') || '/' || json_extract(body, '$.id')
        WHEN 'key_released' THEN 'key:' || json_extract(body, '$.kind') || '/' || json_extract(body, '$.key')
        WHEN 'set_up' THEN json_extract(body, '$.kind') || ':' || json_extract(body, '$.id')
        WHEN 'token_issued' THEN 'promise:' || json_extract(body, '$.promise')
        WHEN 'settled' THEN coalesce('promise:' || json_extract(body, '$.promise'), 'key:promise/' || json_extract(body, '$.key'))
    END);

-- Serve list_audit, one for each filter. Only entries of people pay for them.
CREATE INDEX hapax_audit_by_time ON hapax_notes (workspace, at) WHERE actor IS NOT NULL;
CREATE INDEX hapax_audit_by_run ON hapax_notes (workspace, run, at) WHERE actor IS NOT NULL;
CREATE INDEX hapax_audit_by_credential ON hapax_notes (workspace, audit_credential, at) WHERE actor IS NOT NULL;
CREATE INDEX hapax_audit_by_person ON hapax_notes (workspace, audit_person, at) WHERE actor IS NOT NULL;
CREATE INDEX hapax_audit_by_action ON hapax_notes (workspace, audit_action, at) WHERE actor IS NOT NULL;
CREATE INDEX hapax_audit_by_subject ON hapax_notes (workspace, audit_subject, at) WHERE actor IS NOT NULL;

PRAGMA user_version = 7;
