//! Calls of gRPC to clusters: what the Mixer filters, authorization, rate limits and access logs have in common.
//!
//! [`Channel`] carries calls to a cluster over HTTP/2 connections of this worker, [`Channels`] has one for each cluster that is called,
//! [`Outgoing`] is a call whose messages follow one by one. A call ends with an answer, with the status of the server, or with UNAVAILABLE;
//! none is ever taken for a passed one.

mod channel;
mod outgoing;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{BufMut as _, Bytes, BytesMut};
use tonic::Status;

pub(crate) use channel::{Channel, Method, NOT_SENT, OVERFLOW, TIMED_OUT, is_overflow, is_unanswered};
pub(crate) use outgoing::Outgoing;

use crate::upstream::Pools;

/// A message with its prefix, encoded in place.
///
/// Errors: it has more than 4 GiB.
fn framed(message: impl prost::Message) -> Result<Bytes, Status> {
    const PREFIX: usize = 5;
    let length = message.encoded_len();
    let told =
        u32::try_from(length).map_err(|_| Status::resource_exhausted("the request has more than 4 GiB"))?;
    let mut out = BytesMut::with_capacity(PREFIX + length);
    out.put_u8(0);
    out.put_u32(told);
    message.encode(&mut out).map_err(|error| Status::internal(error.to_string()))?;
    Ok(out.freeze())
}

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

    /// Calls a method of a cluster with a message, which does not outlive its encoding. Dropping the future cancels the call.
    ///
    /// Errors: as of [`Channel::call`].
    pub(crate) async fn call(
        &self,
        cluster: Option<usize>,
        method: &Method<'_>,
        message: impl prost::Message,
    ) -> Result<Bytes, Status> {
        let message = framed(message)?;
        self.of(cluster).call(&self.pools, method, message).await
    }

    /// Begins a call whose messages follow one by one.
    ///
    /// Errors: as of [`Channel::open`].
    pub(crate) async fn open(&self, cluster: Option<usize>, method: &Method<'_>) -> Result<Outgoing, Status> {
        self.of(cluster).open(&self.pools, method).await
    }
}
