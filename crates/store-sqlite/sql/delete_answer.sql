DELETE FROM hapax_answers WHERE request = ?1
