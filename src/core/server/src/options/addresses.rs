//! The addresses that a server listens on.

use super::ServerOptions;
use crate::activation::InheritedSockets;
use mixer_base::log::OptionsError;
use mixer_net::address::ListenAddress;

impl ServerOptions {
    /// Whether callers of the API are asked for certificates: never on a Unix socket, which has no TLS.
    pub(crate) fn requests_certificates(&self) -> bool {
        let is_unix = matches!(self.listen_address(), Ok(ListenAddress::Unix(_)));
        self.tls.is_enabled() && !self.tls.client_ca_file.as_os_str().is_empty() && !is_unix
    }

    /// Every listen address, with the flag that sets it as a user would write it.
    fn listeners(&self) -> Vec<(String, ListenAddress)> {
        let tcp = |address: String| ListenAddress::Tcp { network: "tcp".to_owned(), address };
        let on_port = |flag: &str, port: u16| (format!("{flag} {port}"), tcp(format!(":{port}")));
        let at = |flag: &str, address: &str| {
            let address = Some(address).filter(|address| !address.is_empty());
            address.map(|address| (format!("{flag} {address}"), tcp(address.to_owned())))
        };
        // An invalid address is another error.
        let api = self.listen_address().ok().map(|address| match self.address.as_str() {
            "" => on_port("--port", self.port),
            given => (format!("--address {given}"), address),
        });
        let introspection = self.introspection.listen_address();
        let optional = [
            introspection.map(|address| (format!("--ctrlz-address/--ctrlz-port {address}"), tcp(address))),
            at("--envoy-http-address", &self.envoy_http_address),
            at("--envoy-ratelimit-http-address", &self.envoy_ratelimit_http_address),
        ];
        let monitoring = at("--monitoring-address", &self.monitoring_address);
        let metrics = at("--metrics-address", &self.metrics_address);
        let ports = [
            monitoring.unwrap_or_else(|| on_port("--monitoring-port", self.monitoring_port)),
            metrics.unwrap_or_else(|| on_port("--metrics-port", self.metrics_port)),
        ];
        api.into_iter().chain(ports).chain(optional.into_iter().flatten()).collect()
    }

    /// Errors: the first two flags that name one address, of which only one socket can be opened. With socket activation flags do not
    /// tell the addresses.
    pub fn check_addresses(&self) -> Result<(), OptionsError> {
        if InheritedSockets::are_offered() {
            return Ok(());
        }
        let all = self.listeners();
        for (index, (flag, address)) in all.iter().enumerate() {
            if let Some((other, _)) = all.iter().skip(index + 1).find(|(_, other)| other.overlaps(address)) {
                return Err(OptionsError(format!(
                    "{flag} and {other} are the same address: only one of them can listen there"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pair of flags, on one port.
    #[test]
    fn two_flags_cannot_have_one_address() {
        type Set = fn(&mut ServerOptions);
        let flags: [(&str, Set); 6] = [
            ("--address 127.0.0.1:9999", |o| o.address = "127.0.0.1:9999".to_owned()),
            ("--monitoring-port 9999", |o| o.monitoring_port = 9999),
            ("--metrics-port 9999", |o| o.metrics_port = 9999),
            ("--ctrlz-address/--ctrlz-port 127.0.0.1:9999", |o| {
                o.introspection.address = "127.0.0.1".to_owned();
                o.introspection.port = 9999;
            }),
            ("--envoy-http-address 127.0.0.1:9999", |o| o.envoy_http_address = "127.0.0.1:9999".to_owned()),
            ("--envoy-ratelimit-http-address 127.0.0.1:9999", |o| {
                o.envoy_ratelimit_http_address = "127.0.0.1:9999".to_owned();
            }),
        ];
        assert_eq!(ServerOptions::default().check_addresses(), Ok(()));
        for (index, (flag, set)) in flags.iter().enumerate() {
            let mut options = ServerOptions::default();
            set(&mut options);
            assert_eq!(options.check_addresses(), Ok(()), "{flag}");
            for (other, set_other) in flags.iter().skip(index + 1) {
                let mut options = options.clone();
                set_other(&mut options);
                let text =
                    format!("{flag} and {other} are the same address: only one of them can listen there");
                assert_eq!(options.check_addresses(), Err(OptionsError(text)));
            }
        }
        let options = ServerOptions { port: 15014, ..ServerOptions::default() };
        let text = "--port 15014 and --monitoring-port 15014 are the same address: only one of them can listen there";
        assert_eq!(options.check_addresses(), Err(OptionsError(text.to_owned())));
        // An address stands in for the port.
        let address = "127.0.0.1:9999".to_owned();
        let metrics = ServerOptions {
            metrics_address: address.clone(),
            metrics_port: 9999,
            ..ServerOptions::default()
        };
        assert_eq!(metrics.check_addresses(), Ok(()));
        let text = "--address 127.0.0.1:9999 and --metrics-address 127.0.0.1:9999 are the same address: only one of them can listen there";
        let both = ServerOptions { address, ..metrics };
        assert_eq!(both.check_addresses(), Err(OptionsError(text.to_owned())));
        // Each gets a port of its own.
        let any = ServerOptions { port: 0, monitoring_port: 0, metrics_port: 0, ..ServerOptions::default() };
        assert_eq!(any.check_addresses(), Ok(()));
    }
}
