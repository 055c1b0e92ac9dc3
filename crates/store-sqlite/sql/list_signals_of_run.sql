SELECT seq, name, id, payload, at FROM hapax_signals WHERE workspace = ?1 AND run = ?2 ORDER BY seq
