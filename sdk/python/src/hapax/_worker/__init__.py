"""The worker: sessions, lanes, attempts."""
