//! Hostile peers: clients and hosts that are slow, reset, send too much, too early, garbage or nothing, or what is not theirs to say; memory and descriptors.

#![cfg(test)]

#[path = "hostile/clients.rs"]
mod clients;
#[path = "hostile/hellos.rs"]
mod hellos;
#[path = "hostile/hosts.rs"]
mod hosts;
#[path = "hostile/impatient.rs"]
mod impatient;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "hostile/resources.rs"]
mod resources;
#[path = "hostile/scene.rs"]
mod scene;
#[path = "hostile/trust.rs"]
mod trust;
#[path = "hostile/udp.rs"]
mod udp;
