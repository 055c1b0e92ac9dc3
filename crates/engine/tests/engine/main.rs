//! Tests of the engine on the memory store, and of the memory store itself.

mod announcing;
mod architecture;
mod counting;
mod crashing_everywhere;
mod delivering;
mod denying;
mod doubting;
mod driving;
mod entities;
mod families;
mod following;
mod forgetting;
mod fsck;
mod leases;
mod memory_conformance;
mod naming;
mod outside_lease;
mod panicking;
mod promising;
mod registering;
mod reopening;
mod replaying;
mod support;
mod undoing;
mod waking;
