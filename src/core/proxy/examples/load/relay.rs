//! A bare relay, the floor of what a TCP proxy costs: an event loop, one read and one write for what arrives, nothing else.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::Outcome;

const LISTENER: Token = Token(usize::MAX);

/// Relays from `listen` to `host` until it is killed. A load has one small message at a time on a connection: a write that does not take it
/// as a whole ends the relay with an error.
pub(crate) fn run(listen: SocketAddr, host: SocketAddr) -> Outcome<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(listen)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    // Two streams for each connection, at an even and an odd place.
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 16 << 10];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Some((mut client, _)) = would_block(listener.accept())? {
                    // Connecting to loopback does not wait.
                    let mut upstream = TcpStream::from_std({
                        let stream = std::net::TcpStream::connect(host)?;
                        stream.set_nonblocking(true)?;
                        stream
                    });
                    client.set_nodelay(true)?;
                    upstream.set_nodelay(true)?;
                    let place = streams.len();
                    poll.registry().register(&mut client, Token(place), Interest::READABLE)?;
                    poll.registry().register(&mut upstream, Token(place + 1), Interest::READABLE)?;
                    streams.extend([Some(client), Some(upstream)]);
                }
                continue;
            }
            let (from, to) = (event.token().0, event.token().0 ^ 1);
            while let Some(Some(source)) = streams.get_mut(from) {
                let Some(count) = would_block(source.read(&mut buffer))? else { break };
                let part = buffer.get(..count).unwrap_or_default();
                if count == 0 {
                    for place in [from, to] {
                        if let Some(stream) = streams.get_mut(place) {
                            *stream = None;
                        }
                    }
                    break;
                }
                if let Some(Some(destination)) = streams.get_mut(to) {
                    destination.write_all(part)?;
                }
                if count < buffer.len() {
                    // The socket is empty: the next bytes are another event.
                    break;
                }
            }
        }
    }
}

fn would_block<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
