INSERT INTO hapax_open_subjects (workspace, workflow, subject, run) VALUES (?1, ?2, ?3, ?4)
