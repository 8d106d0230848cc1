//! Command line of mixer: one file a subcommand, over the crates in `src/core/`. `docs/architecture.md` is the map.

pub mod cmd;
