//! Hapax as a server: REST over the engine.
