//! What is to be read of the tree, and what was read: without I/O and without a clock of its own.
//!
//! Each read of a node sets a watch on it, so that what changes afterwards is told; a notification leads to another read. `ROOT` tells
//! which services there are, `ROOT/SERVICE/providers` their providers, and `ROOT/SERVICE` when `providers` is created. A watch belongs to
//! a connection: everything is read again on another one, and what was known counts until then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::wire::Code;
use crate::source::registered::MAX_ENDPOINTS;

/// Nodes below the root that are no services.
const NO_SERVICES: [&str; 3] = ["config", "mapping", "metadata"];
/// The node below a service with its providers.
const PROVIDERS: &str = "providers";
/// Most services that are read.
const MAX_SERVICES: usize = 100_000;
/// Most children of a node, beyond which none are read: a short name takes ten times its text.
pub(super) const MAX_CHILDREN: usize = 400_000;
/// The pause before a read that failed is repeated; it doubles up to the second one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A node to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Read {
    /// The children of the root.
    Root,
    /// Whether the root exists.
    RootExists,
    /// The children of a service.
    Service(Arc<str>),
    /// The providers of a service.
    Providers(Arc<str>),
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The names of the children.
    Children(Vec<String>),
    /// The node exists.
    Exists,
    /// It was not read.
    Failed(Failure),
}

/// Why a node was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server refuses.
    Refused(Code),
    /// The reply has so many bytes.
    TooLarge(usize),
    /// The node has so many children.
    TooMany(usize),
}

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing yet.
    Nothing,
    /// The root was read: these services are gone.
    Root(Vec<Arc<str>>),
    /// The root cannot be read.
    RootFailed(Failure),
    /// These are the providers of a service by now; how many more there are, which are not used.
    Providers(Arc<str>, Vec<String>, usize),
    /// The providers of a service cannot be read.
    ProvidersFailed(Arc<str>, Failure),
}

/// A service.
#[derive(Debug, Default)]
struct Service {
    /// It was read once.
    is_read: bool,
    /// Its nodes are watched on this connection, or about to be read.
    is_watched: bool,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    root: String,
    max_services: usize,
    services: BTreeMap<Arc<str>, Service>,
    /// Services that were not read yet.
    unread: usize,
    /// Services beyond the bound.
    beyond: usize,
    is_root_read: bool,
    due: VecDeque<Read>,
    is_due: BTreeSet<Read>,
    /// Reads that were due since the connection began.
    wanted: usize,
    /// Reads that failed: how long the pause is, and when it ends; `None` while it is read again.
    failed: BTreeMap<Read, (Duration, Option<Instant>)>,
    /// The same by the ends of pauses.
    retries: BTreeSet<(Instant, Read)>,
}

impl Tree {
    /// Below an absolute path without a slash at its end; that of the root of all is empty.
    pub(super) fn new(root: &str) -> Self {
        Self {
            root: root.to_owned(),
            max_services: MAX_SERVICES,
            services: BTreeMap::new(),
            unread: 0,
            beyond: 0,
            is_root_read: false,
            due: VecDeque::new(),
            is_due: BTreeSet::new(),
            wanted: 0,
            failed: BTreeMap::new(),
            retries: BTreeSet::new(),
        }
    }

    /// A connection begins: nothing is watched.
    pub(super) fn begin(&mut self) {
        self.due.clear();
        self.is_due.clear();
        self.wanted = 0;
        self.failed.clear();
        self.retries.clear();
        self.services.values_mut().for_each(|service| service.is_watched = false);
        self.read(Read::Root);
    }

    /// Whether everything that was there at the start was read.
    pub(super) fn is_complete(&self) -> bool {
        self.is_root_read && self.unread == 0
    }

    /// Whether the root has a service.
    pub(super) fn has(&self, name: &str) -> bool {
        self.services.contains_key(name)
    }

    /// Services beyond the bound, which are not read.
    pub(super) fn beyond(&self) -> usize {
        self.beyond
    }

    /// The most services that are read.
    pub(super) fn max_services(&self) -> usize {
        self.max_services
    }

    fn read(&mut self, read: Read) {
        self.forget_failure(&read);
        if self.is_due.insert(read.clone()) {
            self.wanted += 1;
            self.due.push_back(read);
        }
    }

    /// The next node to read.
    pub(super) fn next(&mut self, now: Instant) -> Option<Read> {
        while let Some(read) = self.due.pop_front() {
            self.is_due.remove(&read);
            if self.is_known(&read) {
                return Some(read);
            }
        }
        if self.due()? > now {
            return None;
        }
        let (_, read) = self.retries.pop_first()?;
        self.wanted += 1;
        if let Some((_, due)) = self.failed.get_mut(&read) {
            *due = None;
        }
        Some(read)
    }

    /// When a read that failed is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.retries.first().map(|(due, _)| *due)
    }

    /// The number of reads that were due since the connection began, and of those that are due no longer: they were begun, or are not needed.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.wanted, self.wanted - self.due.len())
    }

    fn forget_failure(&mut self, read: &Read) {
        if let Some((_, Some(due))) = self.failed.remove(read) {
            self.retries.remove(&(due, read.clone()));
        }
    }

    /// Whether its service is there still.
    fn is_known(&self, read: &Read) -> bool {
        match read {
            Read::Root | Read::RootExists => true,
            Read::Service(name) | Read::Providers(name) => self.services.contains_key(name),
        }
    }

    /// The path of a node.
    pub(super) fn path(&self, read: &Read) -> String {
        match read {
            Read::Root | Read::RootExists if self.root.is_empty() => "/".to_owned(),
            Read::Root | Read::RootExists => self.root.clone(),
            Read::Service(name) => format!("{}/{name}", self.root),
            Read::Providers(name) => format!("{}/{name}/{PROVIDERS}", self.root),
        }
    }

    /// A watched node has changed.
    pub(super) fn notified(&mut self, path: &str) {
        if path == self.path(&Read::Root) {
            return self.read(Read::Root);
        }
        let Some(below) = path.strip_prefix(&self.root).and_then(|rest| rest.strip_prefix('/')) else {
            return;
        };
        let (name, read): (&str, fn(Arc<str>) -> Read) = match below.split_once('/') {
            None => (below, Read::Service),
            Some((name, PROVIDERS)) => (name, Read::Providers),
            Some(_) => return,
        };
        if let Some((name, _)) = self.services.get_key_value(name) {
            let read = read(Arc::clone(name));
            self.read(read);
        }
    }

    /// Takes an answer.
    pub(super) fn answered(&mut self, read: Read, answer: Answer, now: Instant) -> Outcome {
        if let Answer::Failed(failure) = &answer
            && *failure != Failure::Refused(Code::NoNode)
        {
            return self.fail(read, failure.clone(), now);
        }
        self.forget_failure(&read);
        match (read, answer) {
            (Read::Root, Answer::Children(names)) => self.root(names),
            (Read::Root, _) => {
                self.read(Read::RootExists);
                self.root(Vec::new())
            }
            (Read::RootExists, Answer::Failed(_)) => Outcome::Nothing,
            (Read::RootExists, _) => {
                self.read(Read::Root);
                Outcome::Nothing
            }
            (Read::Service(name), Answer::Children(names)) => {
                if names.iter().any(|child| child == PROVIDERS) {
                    self.read(Read::Providers(name));
                }
                Outcome::Nothing
            }
            (Read::Service(name), _) => {
                // It is gone, as the root will tell, or comes again.
                if let Some(service) = self.services.get_mut(&name) {
                    service.is_watched = false;
                }
                Outcome::Nothing
            }
            (Read::Providers(name), Answer::Children(nodes)) => self.providers(name, nodes),
            (Read::Providers(name), _) => {
                self.read(Read::Service(Arc::clone(&name)));
                self.providers(name, Vec::new())
            }
        }
    }

    fn fail(&mut self, read: Read, failure: Failure, now: Instant) -> Outcome {
        let pause = self.failed.get(&read).map_or(FIRST_PAUSE, |(pause, _)| (*pause * 2).min(LONGEST_PAUSE));
        self.forget_failure(&read);
        if !self.is_known(&read) {
            return Outcome::Nothing;
        }
        let due = now + pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.failed.insert(read.clone(), (pause, Some(due)));
        self.retries.insert((due, read.clone()));
        match read {
            Read::Root | Read::RootExists => Outcome::RootFailed(failure),
            Read::Service(name) | Read::Providers(name) => {
                // It does not hold up the others.
                self.has_read(&name);
                Outcome::ProvidersFailed(name, failure)
            }
        }
    }

    fn has_read(&mut self, name: &str) -> bool {
        let Some(service) = self.services.get_mut(name) else { return false };
        if !std::mem::replace(&mut service.is_read, true) {
            self.unread -= 1;
        }
        true
    }

    fn root(&mut self, mut names: Vec<String>) -> Outcome {
        names.retain(|name| !NO_SERVICES.contains(&name.as_str()));
        names.sort_unstable();
        names.dedup();
        self.beyond = names.len().saturating_sub(self.max_services);
        names.truncate(self.max_services);
        let is_there = |name: &str| names.binary_search_by(|other| other.as_str().cmp(name)).is_ok();
        let gone: Vec<Arc<str>> = self.services.keys().filter(|name| !is_there(name)).cloned().collect();
        for name in &gone {
            if self.services.remove(name).is_some_and(|service| !service.is_read) {
                self.unread -= 1;
            }
            self.forget_failure(&Read::Providers(Arc::clone(name)));
            self.forget_failure(&Read::Service(Arc::clone(name)));
        }
        for name in names {
            let name: Arc<str> = name.into();
            let service = self.services.entry(Arc::clone(&name)).or_insert_with(|| {
                self.unread += 1;
                Service::default()
            });
            if !std::mem::replace(&mut service.is_watched, true) {
                self.read(Read::Providers(name));
            }
        }
        self.is_root_read = true;
        Outcome::Root(gone)
    }

    fn providers(&mut self, name: Arc<str>, mut nodes: Vec<String>) -> Outcome {
        if !self.has_read(&name) {
            return Outcome::Nothing;
        }
        nodes.sort_unstable();
        let beyond = nodes.len().saturating_sub(MAX_ENDPOINTS);
        nodes.truncate(MAX_ENDPOINTS);
        Outcome::Providers(name, nodes, beyond)
    }
}

#[cfg(test)]
mod tests;
