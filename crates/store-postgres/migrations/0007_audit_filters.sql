-- The audit log by credential, person, action and subject.
--
-- Only adds indexes, over what the stored entry says: the version before goes on beside it, and its entries are found, too. model/note.rs
-- (Noted::action, Noted::subject) says in code what these functions say. They read the text as json, which, unlike jsonb, takes every escape.

CREATE FUNCTION audit_credential(origin text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT origin::json ->> 'credential'
$$;

CREATE FUNCTION audit_person(origin text, actor text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT coalesce(origin::json ->> 'person', actor)
$$;

CREATE FUNCTION audit_action(body text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT CASE coalesce(body::json -> 'did' ->> 'what', body::json ->> 'what')
        WHEN 'set_up' THEN 'set_up:' || (body::json ->> 'kind')
        ELSE coalesce(body::json -> 'did' ->> 'what', body::json ->> 'what')
    END
$$;

CREATE FUNCTION audit_subject(body text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
    SELECT CASE body::json ->> 'what'
        WHEN 'on_entity' THEN 'entity:' || (body::json ->> 'kind') || '/' || (body::json ->> 'id')
        WHEN 'key_released' THEN 'key:' || (body::json ->> 'kind') || '/' || (body::json ->> 'key')
        WHEN 'set_up' THEN (body::json ->> 'kind') || ':' || (body::json ->> 'id')
        WHEN 'token_issued' THEN 'promise:' || (body::json ->> 'promise')
        WHEN 'settled' THEN coalesce('promise:' || (body::json ->> 'promise'), 'key:promise/' || (body::json ->> 'key'))
    END
$$;

-- Serve list_audit, one for each filter. Only entries of people pay for them.
CREATE INDEX audit_by_time ON notes (workspace, at, place) WHERE actor IS NOT NULL;
CREATE INDEX audit_by_run ON notes (workspace, run, at, place) WHERE actor IS NOT NULL;
CREATE INDEX audit_by_credential ON notes (workspace, audit_credential(origin), at, place) WHERE actor IS NOT NULL;
CREATE INDEX audit_by_person ON notes (workspace, audit_person(origin, actor), at, place) WHERE actor IS NOT NULL;
CREATE INDEX audit_by_action ON notes (workspace, audit_action(body), at, place) WHERE actor IS NOT NULL;
CREATE INDEX audit_by_subject ON notes (workspace, audit_subject(body), at, place) WHERE actor IS NOT NULL;
