//! What is peculiar to the SQLite store. What every store must do is in the conformance suite.

mod fixture;
mod verbs;
