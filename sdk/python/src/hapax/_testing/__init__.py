"""An in-memory server and a worker without a network, for tests."""
