INSERT INTO hapax_notes (workspace, run, generation, step, at, fence, owner, actor, role, origin, body, effect, effect_class, attempt,
    occurrence, is_rerun)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
