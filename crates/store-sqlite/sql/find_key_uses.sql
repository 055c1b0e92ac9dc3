SELECT replays, conflicts FROM hapax_keys WHERE workspace = ?1 AND kind = ?2 AND key = ?3
