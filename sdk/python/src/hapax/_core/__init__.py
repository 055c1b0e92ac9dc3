"""The core: the log and messages in, items out. No input or output, no timer, no clock, no network."""
