//! Hostile callers and hostile configuration. Each attack runs against a server with an address space of 1 GB while a client beside it
//! makes calls that must all be answered right; memory must stay within a bound.
//!
//! `cargo test --test attacks` runs every attack for half a second and asserts answers and memory. Latencies are printed, not asserted:
//! `MIXER_ATTACK_SECONDS=5 cargo test --release --test attacks -- --nocapture` prints a table, see docs/testing.md.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

#[path = "attacks/accounts.rs"]
mod accounts;
#[path = "attacks/bodies.rs"]
mod bodies;
#[path = "attacks/denials.rs"]
mod denials;
#[path = "attacks/descriptors.rs"]
mod descriptors;
#[path = "attacks/figures.rs"]
mod figures;
#[path = "attacks/files.rs"]
mod files;
#[path = "attacks/floods.rs"]
mod floods;
#[path = "attacks/flow_control.rs"]
mod flow_control;
#[path = "attacks/heads.rs"]
mod heads;
#[path = "attacks/labels.rs"]
mod labels;
#[path = "attacks/memory.rs"]
mod memory;
#[path = "attacks/pages.rs"]
mod pages;
#[path = "attacks/quotas.rs"]
mod quotas;
#[path = "attacks/records.rs"]
mod records;
#[path = "attacks/scene.rs"]
mod scene;
#[path = "attacks/smuggling.rs"]
mod smuggling;
#[path = "attacks/sources.rs"]
mod sources;
#[path = "attacks/streams.rs"]
mod streams;
#[path = "attacks/words.rs"]
mod words;

/// The attacks, in the order of the table of their figures.
const ATTACKS: [&str; 50] = [
    "empty records",
    "20 000 empty records",
    "1 000 records x 400 metrics",
    "500 000 values in a record",
    "reports of two slices",
    "empty log entries",
    "8 MB of empty log entries",
    "20 000 log entries of 400 bytes",
    "a word of 870 kB in 5 100 values",
    "a word of 60 kB in 15 000 values",
    "a word in 2 000 logged values",
    "labels of 1 MB",
    "unread scrapes",
    "unread configuration",
    "80 000 quotas",
    "a quota of 1 MB",
    "64 quotas with an id of 1 MB",
    "denials with 1 000 secrets",
    "denials with 230 000 parameters",
    "denials of callers with names of 1 MB",
    "denials with 1 900 entries of a long name",
    "slow readers",
    "INITIAL_WINDOW_SIZE",
    "dynamic tables",
    "pipelined large heads",
    "health watches",
    "health checks without window",
    "reflection without window",
    "checks without window",
    "announced messages",
    "announced access logs",
    "calls without bodies",
    "unfinished bodies",
    "unfinished access logs",
    "half-open requests",
    "half-open connections",
    "bursts of unfinished calls",
    "smuggled lengths, foreign hosts, secrets",
    "PING, SETTINGS and PRIORITY floods",
    "gzip bombs and prefixes of 4 GiB",
    "aliases",
    "identifier of 10 MB",
    "patterns",
    "file of 200 MB",
    "broken documents",
    "empty actions",
    "millions of documents",
    "unknown kinds",
    "pipe",
    "everything at once",
];
