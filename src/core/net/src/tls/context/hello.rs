//! The first message of a client, read without a handshake.

use rustls::server::Acceptor;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// More bytes are needed.
    Incomplete,
    /// No ClientHello.
    None,
    /// A ClientHello.
    Found {
        /// The server name.
        server_name: Option<String>,
        /// The protocols of ALPN that it offers, in its order; those that are no text are left out.
        protocols: Vec<String>,
    },
}

/// The byte that records of handshakes begin with.
const HANDSHAKE: u8 = 22;

/// Reads a ClientHello from the first bytes of a connection. Cost: all of them are read each time.
pub fn read_hello(mut bytes: &[u8]) -> Hello {
    match bytes.first() {
        None => return Hello::Incomplete,
        Some(&HANDSHAKE) => {}
        Some(_) => return Hello::None,
    }
    let mut acceptor = Acceptor::default();
    loop {
        // Reading from memory fails only if there is more than a ClientHello takes.
        match acceptor.read_tls(&mut bytes) {
            Ok(1..) => {}
            Ok(0) => return Hello::Incomplete,
            Err(_) => return Hello::None,
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let text = |name: &[u8]| std::str::from_utf8(name).ok().map(str::to_owned);
                return Hello::Found {
                    server_name: hello.server_name().map(str::to_owned),
                    protocols: hello.alpn().map(|names| names.filter_map(text).collect()).unwrap_or_default(),
                };
            }
            Err(_) => return Hello::None,
        }
    }
}
