//! A tower layer that gives any HTTP service the contract of Idempotency-Key, over any Hapax store.
