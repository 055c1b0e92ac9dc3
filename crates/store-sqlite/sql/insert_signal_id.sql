INSERT INTO hapax_signal_ids (workspace, run, id) VALUES (?1, ?2, ?3)
