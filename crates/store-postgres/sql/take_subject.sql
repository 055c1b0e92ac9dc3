INSERT INTO open_subjects (workspace, workflow, subject, run) VALUES ($1, $2, $3, $4)
ON CONFLICT (workspace, workflow, subject) DO NOTHING
