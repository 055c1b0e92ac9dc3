-- What people did stays.
DELETE FROM hapax_notes INDEXED BY hapax_notes_of_run WHERE workspace = ?1 AND run = ?2 AND actor IS NULL
