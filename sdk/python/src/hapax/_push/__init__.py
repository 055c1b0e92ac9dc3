"""Functions that the server sends work to."""
