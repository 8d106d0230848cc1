//! The command line of mixer: one file per subcommand, over the crates in `src/core/`. See `docs/architecture.md`.

pub mod cmd;
