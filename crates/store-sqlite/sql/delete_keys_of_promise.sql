DELETE FROM hapax_keys INDEXED BY hapax_keys_by_promise WHERE workspace = ?1 AND promise = ?2
