//! What `check` and `report` share: flags, the client, repeated calls and their summary.

mod client;
mod connection;
mod documents;
mod flags;
mod load;
mod status;
mod summary;
mod trace;

pub(crate) use client::Client;
pub(crate) use connection::MixerConnection;
pub(crate) use documents::DocumentWriter;
pub(crate) use flags::{CallFlags, CallFormat};
pub(crate) use load::{CallWorker, FinishedCall, Progress, drive};
pub(crate) use status::{RpcError, rpc_code_name, status_code_name};
pub(crate) use summary::{Summary, seconds_text};
pub(crate) use trace::CommandSpan;
