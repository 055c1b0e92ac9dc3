//! All tests of the command, as one program: each program would be linked for itself.

mod support {
    pub mod dev;
    pub mod provider;
    pub mod serve;
    pub mod terminal;
}

mod backup;
mod bench;
mod body_memory;
mod command_line;
mod demo;
mod dev;
mod effects;
mod entity_crashes;
mod http_contract;
mod killed_nodes;
mod migrate;
mod paused_nodes;
mod recovery;
mod remote;
mod same_program;
mod serve;
mod starts_and_ends;
mod worker_faults;
