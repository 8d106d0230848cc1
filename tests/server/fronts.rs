//! Fronts: what is before a backend and refuses, hangs, resets, is slow, talks nonsense or shows a wrong certificate until it is mended.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use crate::certificates::Issued;
use crate::outages::{Fault, configuration};

/// What is before a backend.
pub(crate) struct Front {
    pub(crate) fault: Fault,
    place: Socket,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_well: AtomicBool,
    has_ended: AtomicBool,
    /// Whether something connected.
    is_known: AtomicBool,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Front {
    pub(crate) fn new(fault: Fault) -> Self {
        let place = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        place.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self { fault, place, state: Arc::default() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.place.local_addr().unwrap().as_socket().unwrap().port()
    }

    /// Listens. With TLS, shows the first certificate until it is mended, and then the second.
    pub(crate) fn listen(&self, backend: u16, tls: Option<[Issued; 2]>) {
        self.place.listen(64).unwrap();
        let listener: TcpListener = self.place.try_clone().unwrap().into();
        listener.set_nonblocking(true).unwrap();
        let tls = tls.map(|both| both.map(|issued| configuration(&issued)));
        let (fault, state) = (self.fault, Arc::clone(&self.state));
        std::thread::spawn(move || {
            while !state.has_ended.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                state.is_known.store(true, Ordering::Relaxed);
                stream.set_nonblocking(false).unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                std::thread::spawn(move || serve(fault, &state, stream, backend, tls));
            }
        });
    }

    /// Whether something has connected.
    pub(crate) fn is_known(&self) -> bool {
        self.state.is_known.load(Ordering::Relaxed)
    }

    pub(crate) fn mend(&self, backend: u16) {
        self.state.is_well.store(true, Ordering::Relaxed);
        if self.fault == Fault::Refuses {
            self.listen(backend, None);
        }
    }
}

/// Serves a connection until it ends.
fn serve(
    fault: Fault,
    state: &State,
    mut stream: TcpStream,
    backend: u16,
    tls: Option<[Arc<rustls::ServerConfig>; 2]>,
) {
    let is_well = || state.is_well.load(Ordering::Relaxed);
    let goes_on = || !is_well() && !state.has_ended.load(Ordering::Relaxed);
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    match fault {
        Fault::ShowsWrongCertificate => {
            let mut config = (*tls.expect("certificates")[usize::from(is_well())]).clone();
            // Of the two, a client of HTTP takes the first that it knows, and gRPC only knows the second.
            config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
            let connection = rustls::ServerConnection::new(config.into()).unwrap();
            pass(state, &mut rustls::StreamOwned::new(connection, stream), backend, false);
        }
        _ if is_well() => pass(state, &mut stream, backend, false),
        Fault::Hangs => {
            while goes_on() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Fault::Resets => {
            let _ = stream.read(&mut [0; 64]);
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        Fault::TalksNonsense => {
            let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n\r\n");
            // Until the client leaves.
            while goes_on() && !matches!(stream.read(&mut [0; 4096]), Ok(0)) {}
        }
        Fault::IsSlow | Fault::Refuses => pass(state, &mut stream, backend, true),
    }
}

/// Passes bytes on to the backend and back, until a connection ends; slowly until the front is mended.
fn pass(state: &State, client: &mut (impl Read + Write), backend: u16, is_slow: bool) {
    let Ok(mut behind) = TcpStream::connect(("127.0.0.1", backend)) else { return };
    behind.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let mut buffer = vec![0; 1 << 14];
    let goes_on = |read: std::io::Result<usize>, to: &mut dyn Write, buffer: &[u8]| match read {
        Ok(0) => false,
        Ok(length) => to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_ok(),
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    while !state.has_ended.load(Ordering::Relaxed) {
        let most = if is_slow && !state.is_well.load(Ordering::Relaxed) { 64 } else { buffer.len() };
        let read = client.read(&mut buffer[..most]);
        if !goes_on(read, &mut behind, &buffer) {
            return;
        }
        let read = behind.read(&mut buffer);
        if !goes_on(read, client, &buffer) {
            return;
        }
    }
}
