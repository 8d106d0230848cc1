//! Calls of gRPC to clusters: what the Mixer filters, authorization, rate limits and access logs have in common.
//!
//! [`Channel`] carries calls to a cluster over HTTP/2 connections of this worker, [`Channels`] has one for each cluster that is called,
//! [`Outgoing`] is a call whose messages follow one by one. A call ends with an answer, with the status of the server, or with UNAVAILABLE;
//! none is ever taken for a passed one.

mod channel;
mod framed;
mod link;
mod outgoing;
mod queue;
mod status;
mod transport;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use tonic::Status;

pub(crate) use channel::{Channel, Method};
pub(crate) use framed::Framed;
pub(crate) use outgoing::Outgoing;
pub(crate) use status::{NOT_SENT, OVERFLOW, TIMED_OUT, is_overflow, is_unanswered, is_without_memory};

use crate::upstream::Pools;

/// The channels of a worker, by cluster.
#[derive(Debug)]
pub(crate) struct Channels {
    pools: Rc<Pools>,
    known: RefCell<Vec<(Option<usize>, Rc<Channel>)>>,
}

impl Channels {
    /// No channels; those to come call the clusters of this worker.
    pub(crate) fn new(pools: Rc<Pools>) -> Self {
        Self { pools, known: RefCell::default() }
    }

    fn of(&self, cluster: Option<usize>) -> Rc<Channel> {
        let mut known = self.known.borrow_mut();
        if let Some((_, channel)) = known.iter().find(|(of, _)| *of == cluster) {
            return Rc::clone(channel);
        }
        let channel = Rc::new(Channel::new(cluster));
        known.push((cluster, Rc::clone(&channel)));
        channel
    }

    /// Calls a method of a cluster. Dropping the future cancels the call.
    ///
    /// Errors: as of [`Channel::call`].
    pub(crate) async fn call(
        &self,
        cluster: Option<usize>,
        method: &Method<'_>,
        message: Framed,
    ) -> Result<Bytes, Status> {
        self.of(cluster).call(&self.pools, method, message).await
    }

    /// Begins a call whose messages follow one by one.
    ///
    /// Errors: as of [`Channel::open`].
    pub(crate) async fn open(&self, cluster: Option<usize>, method: &Method<'_>) -> Result<Outgoing, Status> {
        self.of(cluster).open(&self.pools, method).await
    }
}
