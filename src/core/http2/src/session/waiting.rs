//! The streams whose answers wait, by what they wait for: only those that can go on are visited.
//!
//! A client that opens no window for very many answers would otherwise have all of them visited whenever something was written.

use std::collections::{BTreeMap, BTreeSet};

use super::super::stream::Wait;

/// Each waiting stream once, with the [`Wait`] that it keeps.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    for_output: BTreeMap<u64, u32>,
    for_connection: BTreeMap<u64, u32>,
    for_window: BTreeSet<u32>,
    /// How many waited for output or for the connection so far.
    began: u64,
    /// The streams from here on were not visited since the initial window grew.
    unvisited: Option<u32>,
}

impl Waiting {
    /// Adds a stream that waits for room in the output.
    pub(super) fn for_output(&mut self, id: u32) -> Wait {
        self.began += 1;
        self.for_output.insert(self.began, id);
        Wait::Output(self.began)
    }

    /// Adds a stream that waits for window of the connection.
    pub(super) fn for_connection(&mut self, id: u32) -> Wait {
        self.began += 1;
        self.for_connection.insert(self.began, id);
        Wait::Connection(self.began)
    }

    /// Adds a stream that waits for window of its own.
    pub(super) fn for_window(&mut self, id: u32) -> Wait {
        self.for_window.insert(id);
        Wait::Window
    }

    /// Removes a stream.
    pub(super) fn remove(&mut self, id: u32, wait: Wait) {
        match wait {
            Wait::Nothing => {}
            Wait::Output(since) => {
                self.for_output.remove(&since);
            }
            Wait::Connection(since) => {
                self.for_connection.remove(&since);
            }
            Wait::Window => {
                self.for_window.remove(&id);
            }
        }
    }

    /// Notes that every stream that waits for window of its own may have some.
    pub(super) fn initial_window_grew(&mut self) {
        self.unvisited = (!self.for_window.is_empty()).then_some(0);
    }

    /// The next stream to visit since then. It still waits.
    pub(super) fn next_without_window(&mut self) -> Option<u32> {
        let id = self.for_window.range(self.unvisited?..).next().copied();
        // The largest identifier is odd and below 2^31.
        self.unvisited = id.map(|id| id + 1);
        id
    }

    /// Removes the stream that has waited longest of those that can go on: for the output, and for the connection if it has window.
    pub(super) fn next(&mut self, has_window: bool) -> Option<u32> {
        let first = |waiting: &BTreeMap<u64, u32>| waiting.first_key_value().map(|(since, _)| *since);
        let connection = first(&self.for_connection).filter(|_| has_window);
        let longest = match (first(&self.for_output), connection) {
            (Some(output), Some(connection)) if connection < output => &mut self.for_connection,
            (None, Some(_)) => &mut self.for_connection,
            _ => &mut self.for_output,
        };
        longest.pop_first().map(|(_, id)| id)
    }

    /// Whether [`next`](Self::next) or [`next_without_window`](Self::next_without_window) has a stream.
    pub(super) fn has_next(&self, has_window: bool) -> bool {
        self.unvisited.is_some()
            || !self.for_output.is_empty()
            || has_window && !self.for_connection.is_empty()
    }

    /// Every waiting stream.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        let in_order = self.for_output.values().chain(self.for_connection.values());
        in_order.chain(&self.for_window).copied()
    }

    /// How often a stream began to wait for output or for the connection.
    #[cfg(test)]
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// Number of waiting streams.
    pub(super) fn len(&self) -> usize {
        self.for_output.len() + self.for_connection.len() + self.for_window.len()
    }
}
