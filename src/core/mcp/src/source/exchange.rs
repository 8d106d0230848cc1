//! The state of one stream, without input and output: which message is pending, and what the sink has.
//!
//! At most one message of a collection is pending. An answer with its nonce acknowledges or refuses it; one with another nonce is stale.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use mixer_base::metrics::Counter;

use crate::encode::{Dialect, Head};
use crate::grpc::Message;
use crate::inbox::Answer;
use crate::ledger::Publication;
use crate::message::RequestResources;
use crate::message::google::rpc;
use crate::model::State;
use crate::source::SourceOptions;

/// The pseudo collection with which a source that calls out begins.
pub(crate) const TRIGGER: &str = "$triggerCollection";
/// The code with which a sink refuses the trigger.
const UNIMPLEMENTED: i32 = 12;

/// The state of a stream.
#[derive(Debug)]
pub(crate) struct Exchange {
    dialect: Dialect,
    /// Collections that sinks can ask for, by the name that they use.
    served: Arc<HashMap<Arc<str>, Arc<str>>>,
    /// Whether the source sends differences.
    incremental: bool,
    /// See [`SourceOptions::lasting_versions`].
    lasting_versions: bool,
    rows: HashMap<Arc<str>, Row>,
    nonce: u64,
}

/// A collection of a stream.
#[derive(Debug, Default)]
struct Row {
    acknowledged: Base,
    pending: Option<Pending>,
    /// The name that the sink uses.
    asked: Arc<str>,
}

/// What the sink has acknowledged.
#[derive(Debug, Default)]
enum Base {
    #[default]
    Nothing,
    /// What it said that it has.
    Versions(BTreeMap<String, String>),
    State(Arc<State>),
}

/// A message that was sent and not answered.
#[derive(Debug)]
struct Pending {
    nonce: String,
    state: Arc<State>,
    publication: Publication,
}

/// A message that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) version: Arc<str>,
    pub(crate) publication: Publication,
}

/// What follows from a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reaction {
    /// Nothing: the answer to the trigger.
    Ignored,
    /// The stream ends: the collection is not served.
    Unsupported,
    /// Nothing: the nonce is not that of the pending message, which is given.
    Stale {
        /// The name that is served.
        collection: Arc<str>,
        /// The nonce of the pending message; empty if there is none.
        expected: String,
    },
    /// The collection is watched from a version.
    Watch {
        /// The name that is served.
        collection: Arc<str>,
        /// The version that the sink answered last, or "".
        from: Arc<str>,
        /// The message that was acknowledged, or refused.
        answered: Option<(Answered, Option<rpc::Status>)>,
    },
}

/// A message to be sent, and what it brings.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) message: Message,
    pub(crate) nonce: String,
    pub(crate) incremental: bool,
}

impl Exchange {
    pub(crate) fn new(
        dialect: Dialect,
        served: Arc<HashMap<Arc<str>, Arc<str>>>,
        options: &SourceOptions,
    ) -> Self {
        let SourceOptions { incremental, lasting_versions, .. } = *options;
        Self { dialect, served, incremental, lasting_versions, rows: HashMap::new(), nonce: 0 }
    }

    /// Whether a request answers the pending message of its collection.
    pub(crate) fn is_answer(&self, request: &RequestResources) -> bool {
        let collection = self.served.get(&*request.collection);
        let pending = collection.and_then(|name| self.rows.get(name)).and_then(|row| row.pending.as_ref());
        pending.is_some_and(|pending| {
            request.response_nonce.is_empty() || request.response_nonce == pending.nonce
        })
    }

    /// A request of the sink.
    pub(crate) fn request(&mut self, request: RequestResources) -> Reaction {
        let error = request.error_detail;
        if request.collection == TRIGGER && error.as_ref().is_some_and(|e| e.code == UNIMPLEMENTED) {
            return Reaction::Ignored;
        }
        let Some((asked, name)) = self.served.get_key_value(&*request.collection) else {
            return Reaction::Unsupported;
        };
        let collection = Arc::clone(name);
        let row = self.rows.entry(Arc::clone(name)).or_insert_with(|| {
            // The first request of the collection on this stream.
            let has = request.initial_resource_versions;
            let is_delta = self.incremental && request.incremental && !has.is_empty();
            let acknowledged = if is_delta { Base::Versions(has) } else { Base::Nothing };
            Row { acknowledged, pending: None, asked: Arc::clone(asked) }
        });
        let nonce = request.response_nonce;
        if !nonce.is_empty() && row.pending.as_ref().is_none_or(|pending| pending.nonce != nonce) {
            let expected = row.pending.as_ref().map(|pending| pending.nonce.clone()).unwrap_or_default();
            return Reaction::Stale { collection, expected };
        }
        let Some(pending) = row.pending.take() else {
            return Reaction::Watch { collection, from: "".into(), answered: None };
        };
        let version = Arc::clone(pending.state.version());
        if error.is_none() {
            row.acknowledged = Base::State(pending.state);
        }
        let answered = Answered { version: Arc::clone(&version), publication: pending.publication };
        // A refused version is not sent again either.
        Reaction::Watch { collection, from: version, answered: Some((answered, error)) }
    }

    /// The message for an answer of the cache, which is pending from now on. `encodings` counts bodies that no other stream had encoded.
    ///
    /// Errors: the message is longer than gRPC allows.
    pub(crate) fn send(&mut self, answer: &Answer, encodings: &Counter) -> Result<Sending, usize> {
        let collection = &answer.collection;
        let row = self.rows.entry(Arc::clone(collection.name())).or_default();
        let incremental = self.incremental && answer.incremental;
        let mut removed = Vec::new();
        let body: Bytes = match (&row.acknowledged, incremental) {
            (Base::State(before), true) => collection.delta(before, encodings),
            (Base::Versions(before), true) => {
                removed = collection.gone(before);
                match self.lasting_versions {
                    true => collection.delta_from_versions(before, encodings),
                    // Everything: all sinks that come back share it.
                    false => collection.full(self.dialect, encodings),
                }
            }
            (Base::Nothing, _) | (_, false) => collection.full(self.dialect, encodings),
        };
        self.nonce += 1;
        let nonce = self.nonce.to_string();
        let asked = if row.asked.is_empty() { collection.name() } else { &row.asked };
        let version = collection.version();
        let head = Head { version, collection: asked, nonce: &nonce, incremental, removed: &removed };
        let message = Message::new(self.dialect.head(&head), body)?;
        let state = Arc::clone(collection.state());
        row.pending = Some(Pending { nonce: nonce.clone(), state, publication: answer.publication });
        Ok(Sending { message, nonce, incremental })
    }
}
