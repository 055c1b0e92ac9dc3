UPDATE hapax_hooks SET duplicates = duplicates + 1 WHERE place = ?1
