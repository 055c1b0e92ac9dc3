SELECT replays, conflicts FROM hapax_requests WHERE workspace = ?1 AND caller = ?2 AND key = ?3
