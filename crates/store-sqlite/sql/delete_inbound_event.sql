DELETE FROM hapax_hooks WHERE place = ?1
