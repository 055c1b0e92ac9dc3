INSERT INTO hapax_entity_notes (workspace, kind, entity, operation, at, actor, role, origin, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
