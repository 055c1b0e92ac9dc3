INSERT OR REPLACE INTO hapax_steps (workspace, run, generation, step, kind, status, attempts, started_at, started_version,
    changed_version, fence, at, value, child)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
