//! systemd socket activation.
//!
//! `LISTEN_FDS` is the number of inherited descriptors and `LISTEN_FDNAMES` their roles: `grpc`, `monitoring`, `ctrlz`, `envoy` or
//! `envoy-ratelimit`. A single socket with another name is for the API. The sockets belong to the service manager: they stay open across restarts, and the file of a
//! unix socket is not removed. See docs/operations.md.

use std::net::TcpListener;

use mixer_base::rotate::os_text;
use mixer_net::listener::{InheritedSocket, ListenError};

/// An HTTP endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Metrics, version, health, profiles.
    Monitoring,
    /// ControlZ.
    Introspection,
    /// HTTP external authorization.
    Envoy,
    /// Rate limits of Envoy over HTTP.
    EnvoyRateLimits,
}

/// Sockets from socket activation.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// For the API.
    pub grpc: Option<InheritedSocket>,
    /// For the monitoring endpoint.
    pub monitoring: Option<TcpListener>,
    /// For ControlZ.
    pub introspection: Option<TcpListener>,
    /// For HTTP external authorization.
    pub envoy: Option<TcpListener>,
    /// For rate limits of Envoy over HTTP.
    pub envoy_rate_limits: Option<TcpListener>,
}

impl InheritedSockets {
    /// The sockets in the environment; none if they are for another process.
    ///
    /// Errors: an unknown or duplicate name, or a socket of the wrong type.
    pub(crate) fn from_environment() -> Result<Self, ListenError> {
        let mut handed = listenfd::ListenFd::from_env();
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut sockets = Vec::new();
        for (number, name) in names_of(&names, handed.len()).into_iter().enumerate() {
            sockets.push((take(&mut handed, number, &name)?, name));
        }
        Self::sort(sockets)
    }

    /// Whether the environment has any, for this process or another one.
    pub(crate) fn are_offered() -> bool {
        std::env::var_os("LISTEN_FDS").is_some()
    }

    /// Assigns the sockets by name.
    fn sort(sockets: Vec<(InheritedSocket, String)>) -> Result<Self, ListenError> {
        let mut sorted = Self::default();
        let is_alone = sockets.len() == 1;
        for (socket, name) in sockets {
            let taken = match name.as_str() {
                "monitoring" => sorted.monitoring.replace(over_tcp(socket, &name)?).is_some(),
                "ctrlz" => sorted.introspection.replace(over_tcp(socket, &name)?).is_some(),
                "envoy" => sorted.envoy.replace(over_tcp(socket, &name)?).is_some(),
                "envoy-ratelimit" => sorted.envoy_rate_limits.replace(over_tcp(socket, &name)?).is_some(),
                "grpc" => sorted.grpc.replace(socket).is_some(),
                _ if is_alone => sorted.grpc.replace(socket).is_some(),
                _ => {
                    let text = "is none of grpc, monitoring, ctrlz, envoy and envoy-ratelimit (FileDescriptorName= of the socket unit)";
                    return Err(refused(&name, text));
                }
            };
            if taken {
                return Err(refused(&name, "is given twice"));
            }
        }
        Ok(sorted)
    }

    /// Takes the socket of an HTTP endpoint.
    pub(crate) fn take_http(&mut self, endpoint: Endpoint) -> Option<TcpListener> {
        match endpoint {
            Endpoint::Monitoring => self.monitoring.take(),
            Endpoint::Introspection => self.introspection.take(),
            Endpoint::Envoy => self.envoy.take(),
            Endpoint::EnvoyRateLimits => self.envoy_rate_limits.take(),
        }
    }
}

/// The names of the descriptors, padded with empty ones.
fn names_of(names: &str, count: usize) -> Vec<String> {
    names.split(':').chain(std::iter::repeat("")).take(count).map(str::to_owned).collect()
}

fn take(handed: &mut listenfd::ListenFd, number: usize, name: &str) -> Result<InheritedSocket, ListenError> {
    if let Ok(Some(socket)) = handed.take_tcp_listener(number) {
        return Ok(InheritedSocket::Tcp(socket));
    }
    match handed.take_unix_listener(number) {
        Ok(Some(socket)) => Ok(InheritedSocket::Unix(socket)),
        Ok(None) => Err(refused(name, "is missing")),
        Err(error) => {
            let text = format!("is no listening stream socket: {}", os_text(&error));
            Err(refused(name, &text))
        }
    }
}

fn over_tcp(socket: InheritedSocket, name: &str) -> Result<TcpListener, ListenError> {
    match socket {
        InheritedSocket::Tcp(socket) => Ok(socket),
        InheritedSocket::Unix(_) => Err(refused(name, "must be a TCP socket")),
    }
}

fn refused(name: &str, why: &str) -> ListenError {
    ListenError(format!("LISTEN_FDS: the socket `{name}` {why}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use mixer_net::address::ListenAddress;

    fn tcp() -> InheritedSocket {
        InheritedSocket::Tcp(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn sort(sockets: Vec<(InheritedSocket, &str)>) -> Result<InheritedSockets, String> {
        let named = sockets.into_iter().map(|(socket, name)| (socket, name.to_owned())).collect();
        InheritedSockets::sort(named).map_err(|error| error.0)
    }

    #[test]
    fn names_determine_roles() {
        assert_eq!(names_of("", 2), ["", ""]);
        assert_eq!(names_of("grpc:ctrlz:more", 2), ["grpc", "ctrlz"]);
        let sorted = sort(vec![(tcp(), "ctrlz"), (tcp(), "grpc")]).unwrap();
        assert!(sorted.grpc.is_some() && sorted.introspection.is_some() && sorted.monitoring.is_none());
        let alone = sort(vec![(tcp(), "mixer.socket")]).unwrap();
        assert!(alone.grpc.is_some());
        assert!(sort(Vec::new()).unwrap().grpc.is_none());
    }

    #[test]
    fn unknown_sockets_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let unix =
            |name: &str| InheritedSocket::Unix(UnixListener::bind(directory.path().join(name)).unwrap());
        assert_eq!(
            sort(vec![(tcp(), "grpc"), (tcp(), "http")]).unwrap_err(),
            "LISTEN_FDS: the socket `http` is none of grpc, monitoring, ctrlz, envoy and envoy-ratelimit (FileDescriptorName= \
             of the socket unit)"
        );
        assert_eq!(
            sort(vec![(tcp(), "grpc"), (unix("a"), "grpc")]).unwrap_err(),
            "LISTEN_FDS: the socket `grpc` is given twice"
        );
        assert_eq!(
            sort(vec![(unix("b"), "monitoring")]).unwrap_err(),
            "LISTEN_FDS: the socket `monitoring` must be a TCP socket"
        );
        assert_eq!(unix("c").address(), ListenAddress::Unix(directory.path().join("c")));
    }
}
