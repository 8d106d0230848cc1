//! Flags that have no effect beside others.

use super::GivenFlags;
use crate::cmd::exit::{Failure, Stop};
use crate::cmd::io::Io;

/// Flags that are without effect under a condition. `A`: what tells it, mostly the flags of the command.
#[derive(Debug)]
pub(crate) struct Lost<A: 'static> {
    flags: &'static [&'static str],
    when: fn(&A) -> bool,
    /// What takes the effect; with the cure.
    why: &'static str,
    /// Whether who gives it believes in a protection that is not there.
    endangers: bool,
}

impl<A> Lost<A> {
    /// Flags that are told.
    pub(crate) const fn idle(
        flags: &'static [&'static str],
        when: fn(&A) -> bool,
        why: &'static str,
    ) -> Self {
        Self { flags, when, why, endangers: false }
    }

    /// Flags for a protection that is not there, which is an error.
    pub(crate) const fn protecting(
        flags: &'static [&'static str],
        when: fn(&A) -> bool,
        why: &'static str,
    ) -> Self {
        Self { flags, when, why, endangers: true }
    }

    /// The flags, without `--`.
    #[cfg(test)]
    pub(crate) fn flags(&self) -> &'static [&'static str] {
        self.flags
    }
}

/// The warnings about flags that are given and have no effect. Errors: one of them would protect something.
pub(crate) fn lost<A>(table: &[Lost<A>], given: &GivenFlags, args: &A) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for Lost { flags, when, why, endangers } in table {
        for flag in flags.iter().filter(|flag| given.has(flag)).filter(|_| when(args)) {
            let text = format!("--{flag} has no effect: {why}");
            if *endangers {
                return Err(Failure::local("the settings contradict each other").cause(text));
            }
            warnings.push(text);
        }
    }
    Ok(warnings)
}

/// Tells the flags that are given and have no effect. Errors: as [`lost`].
pub(crate) fn tell_lost<A>(table: &[Lost<A>], given: &GivenFlags, args: &A, io: &mut Io) -> Result<(), Stop> {
    for text in lost(table, given, args)? {
        io.warn(&text)?;
    }
    Ok(())
}
