//! Documents: how they are read, checked, run and replayed.

mod checking;
mod entities;
mod entity_properties;
mod events;
mod examples;
mod flooding;
mod input_schemas;
mod replaying;
mod requesting;
mod round_trip;
mod running;
mod sharing;
mod sources;
mod support;
