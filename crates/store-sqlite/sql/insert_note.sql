INSERT INTO hapax_notes (workspace, run, generation, step, at, fence, owner, actor, role, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
