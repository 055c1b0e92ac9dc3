DELETE FROM hapax_settle_tokens INDEXED BY hapax_settle_tokens_of_promise WHERE workspace = ?1 AND promise = ?2
