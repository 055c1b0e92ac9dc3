LISTEN hapax_due
