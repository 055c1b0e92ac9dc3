//! Judges any HTTP service by the clauses of the Idempotency-Key contract, from outside.
