DELETE FROM hapax_requests WHERE number = ?1
