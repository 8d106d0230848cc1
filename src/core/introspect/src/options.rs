//! Settings of ControlZ as plain data.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::Guard;
use mixer_base::regular_file;
use mixer_base::rotate::os_text;

/// Maximum size of the token file, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// Settings of ControlZ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntrospectionOptions {
    /// Port; 0: off.
    pub port: u16,
    /// Host; `*` means all interfaces; a port in it (`127.0.0.1:0`) takes precedence.
    pub address: String,
    /// Refuses requests that change state.
    pub read_only: bool,
    /// File with the token for requests; empty: no token.
    pub token_file: PathBuf,
    /// Allowed names in `Host` besides IP addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Whether a PUT of a logging scope passes over what it does not know, as that of Istio Mixer, instead of refusing it.
    pub scopes_as_istio: bool,
}

/// What to do when ControlZ cannot be started, behind the error.
pub const NOT_STARTED_CURE: &str =
    "; the server serves without it: --ctrlz-port or --ctrlz-address chooses another port or address";

impl IntrospectionOptions {
    /// Its listen address as `host:port`; `None` if it is off.
    pub fn listen_address(&self) -> Option<String> {
        if self.port == 0 {
            return None;
        }
        let host = if self.address == "*" { "" } else { self.address.as_str() };
        // An IPv6 address without port ends with a bracket.
        let port = host.rsplit_once(':').map(|(_, port)| port).filter(|p| !p.is_empty());
        match port.map(str::parse::<u16>) {
            Some(Ok(_)) if host.starts_with('[') || host.matches(':').count() == 1 => Some(host.to_owned()),
            _ if host.contains(':') && !host.starts_with('[') => Some(format!("[{host}]:{}", self.port)),
            _ => Some(format!("{host}:{}", self.port)),
        }
    }

    /// These settings with the port and the host of the listen address.
    #[must_use]
    pub fn in_effect(&self) -> Self {
        let address = self.listen_address();
        let parts = address.as_deref().and_then(|address| address.rsplit_once(':'));
        let parts = parts.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
        let (address, port) = parts.unwrap_or_else(|| (self.address.clone(), self.port));
        Self { address, port, ..self.clone() }
    }

    /// The access rules. Errors: the token cannot be read.
    pub fn guard(&self) -> Result<Guard, String> {
        let token = self.token()?;
        // A loopback listener also permits revealing; known once it is bound.
        let may_reveal = token.is_some() && !self.read_only;
        Ok(Guard { hosts: self.allowed_hosts.clone(), token, read_only: self.read_only, may_reveal })
    }

    /// Completes the access rules with where ControlZ listens, and logs that.
    pub fn listening(&self, guard: &mut Guard, bound: Option<SocketAddr>) {
        tracing::info!("ControlZ available at {}", bound.map(|a| a.to_string()).unwrap_or_default());
        let is_local = bound.is_some_and(|a| a.ip().is_loopback());
        guard.may_reveal |= is_local && !self.read_only;
        if guard.token.is_none() && !is_local {
            tracing::warn!(
                "ControlZ listens beyond this machine without a token; --ctrlz-token-file sets one"
            );
        }
    }

    fn token(&self) -> Result<Option<String>, String> {
        let file = &self.token_file;
        if file.as_os_str().is_empty() {
            return Ok(None);
        }
        let text = regular_file::read_text(file, MAX_TOKEN)
            .map_err(|e| format!("token file {}: {}", file.display(), os_text(&e)))?;
        match text.trim() {
            "" => Err(format!("token file {} is empty", file.display())),
            token => Ok(Some(token.to_owned())),
        }
    }
}

impl Default for IntrospectionOptions {
    fn default() -> Self {
        Self {
            port: 9876,
            address: "localhost".to_owned(),
            read_only: false,
            token_file: PathBuf::new(),
            allowed_hosts: Vec::new(),
            scopes_as_istio: false,
        }
    }
}

/// `key=value …`.
impl std::fmt::Display for IntrospectionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "port={} address={} readOnly={}", self.port, self.address, self.read_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_the_controlz_address_takes_precedence() {
        let at = |address: &str| {
            IntrospectionOptions { address: address.to_owned(), ..IntrospectionOptions::default() }
                .listen_address()
        };
        for (address, listens) in [
            ("localhost", "localhost:9876"),
            ("*", ":9876"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("::1", "[::1]:9876"),
            ("[::1]", "[::1]:9876"),
            ("[::1]:0", "[::1]:0"),
        ] {
            assert_eq!(at(address).as_deref(), Some(listens), "{address}");
        }
        assert_eq!(
            IntrospectionOptions { port: 0, ..IntrospectionOptions::default() }.listen_address(),
            None
        );
    }

    #[test]
    fn the_token_file_is_a_regular_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let settings = IntrospectionOptions { token_file: path.clone(), ..IntrospectionOptions::default() };
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = settings.guard().map(|_| ()).unwrap_err();
        assert!(error.ends_with(": not a regular file but a FIFO"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, " secret\n").unwrap();
        assert_eq!(settings.guard().map(|guard| guard.token), Ok(Some("secret".to_owned())));
    }
}
