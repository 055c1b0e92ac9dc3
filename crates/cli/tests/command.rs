//! All tests of the command, as one program: each program would be linked for itself.

mod support {
    pub mod dev;
    pub mod page;
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
mod entities_page;
mod entity_crashes;
mod http_contract;
mod killed_nodes;
mod migrate;
mod paused_nodes;
mod quickstart_page;
mod recovery;
mod remote;
mod serve;
mod starts_and_ends;
mod webhooks_page;
