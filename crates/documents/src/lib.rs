//! Step workflows as documents: parsed, checked, and run by the engine.
