//! One check: a connection, what is sent, and what is expected.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use mixer_net::stream::Stream;

use super::grpc::GrpcChecker;
use super::http::HttpChecker;
use super::session::Outcome;
use crate::bootstrap::{CheckKind, HealthCheckConfig, TcpCheck};
use crate::cluster::Cluster;
use crate::upstream::establish;

/// Bytes of an answer to a TCP check that are kept to find in them what is expected.
const MAX_ANSWER: usize = 64 << 10;

/// Checks one host.
pub(super) struct Checker {
    timeout: Duration,
    reuses: bool,
    kind: Kind,
}

enum Kind {
    Http(Box<HttpChecker>),
    Tcp(TcpChecker),
    Grpc(GrpcChecker),
    /// Outcomes, each after a time; the times of checks are noted.
    #[cfg(test)]
    Scripted(super::tests::Script),
}

impl Checker {
    #[cfg(test)]
    pub(super) fn scripted(script: super::tests::Script, config: &HealthCheckConfig) -> Self {
        Self { timeout: config.timeout, reuses: true, kind: Kind::Scripted(script) }
    }

    pub(super) fn new(cluster: &Cluster, config: &HealthCheckConfig) -> Self {
        let name = &cluster.config.name;
        let kind = match &config.kind {
            CheckKind::Http(check) => Kind::Http(Box::new(HttpChecker::new(check.clone(), name))),
            CheckKind::Tcp(check) => Kind::Tcp(TcpChecker { check: check.clone(), connection: None }),
            CheckKind::Grpc(check) => Kind::Grpc(GrpcChecker::new(check, name)),
        };
        Self { timeout: config.timeout, reuses: config.reuses_connection, kind }
    }

    /// Checks the host at an address, within the time limit.
    pub(super) async fn check(&mut self, cluster: &Cluster, address: SocketAddr) -> Outcome {
        let checked = match &mut self.kind {
            Kind::Http(http) => tokio::time::timeout(self.timeout, http.check(cluster, address)).await,
            Kind::Tcp(tcp) => tokio::time::timeout(self.timeout, tcp.check(cluster, address)).await,
            Kind::Grpc(grpc) => tokio::time::timeout(self.timeout, grpc.check(cluster, address)).await,
            #[cfg(test)]
            Kind::Scripted(script) => tokio::time::timeout(self.timeout, script.check()).await,
        };
        let outcome = checked.unwrap_or(Outcome::TimedOut);
        if !self.reuses || matches!(outcome, Outcome::Failed | Outcome::TimedOut) {
            self.disconnect();
        }
        outcome
    }

    fn disconnect(&mut self) {
        match &mut self.kind {
            Kind::Http(http) => http.disconnect(),
            Kind::Tcp(tcp) => tcp.connection = None,
            Kind::Grpc(grpc) => grpc.disconnect(),
            #[cfg(test)]
            Kind::Scripted(_) => {}
        }
    }

    /// Waits for the next check. A connection that the host closes meanwhile, or sends on unasked, is not used again.
    pub(super) async fn watch(&mut self, pause: Duration) {
        let until = tokio::time::Instant::now() + pause;
        let connection = match &mut self.kind {
            Kind::Http(http) => http.connection.as_mut(),
            Kind::Tcp(tcp) => tcp.connection.as_mut(),
            Kind::Grpc(_) => None,
            #[cfg(test)]
            Kind::Scripted(_) => None,
        };
        if let Some(connection) = connection {
            let mut byte = [0];
            if tokio::time::timeout_at(until, connection.read(&mut byte)).await.is_ok() {
                self.disconnect();
            }
        }
        tokio::time::sleep_until(until).await;
    }
}

/// A check by bytes.
struct TcpChecker {
    check: TcpCheck,
    connection: Option<Stream>,
}

impl TcpChecker {
    async fn check(&mut self, cluster: &Cluster, address: SocketAddr) -> Outcome {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => match establish(cluster, address, None).await {
                Ok(connection) => connection,
                Err(error) => return error.into(),
            },
        };
        if !self.check.send.is_empty() {
            let sent = async {
                connection.write_all(&self.check.send).await?;
                connection.flush().await
            };
            if sent.await.is_err() {
                return Outcome::Failed;
            }
        }
        // Without an answer to expect, the connection was all.
        if self.check.receive.is_empty() {
            return Outcome::Success;
        }
        let mut answer = BytesMut::new();
        loop {
            if has_all(&answer, &self.check.receive) {
                self.connection = Some(connection);
                return Outcome::Success;
            }
            if answer.len() >= MAX_ANSWER {
                return Outcome::Failed;
            }
            match connection.read_buf(&mut answer).await {
                Ok(1..) => {}
                _ => return Outcome::Failed,
            }
        }
    }
}

/// Whether all parts are there, one after the other.
pub(super) fn has_all(answer: &[u8], parts: &[Vec<u8>]) -> bool {
    let mut rest = answer;
    parts.iter().all(|part| {
        let found = memchr::memmem::find(rest, part);
        if let Some(at) = found {
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        found.is_some()
    })
}
