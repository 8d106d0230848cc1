//! Picks the command and runs it.

fn main() {}
