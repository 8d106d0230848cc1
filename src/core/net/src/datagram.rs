//! Datagrams with the local address that each was sent to, and that its answer is sent from.
//!
//! A socket that is bound to all addresses of a machine receives what is sent to any of them, and the system would answer from the one that
//! the route prefers, which a client that wrote to another one does not take. After [`tell_destinations`], [`receive`] tells the address
//! of each datagram, and [`send`] sends from it.
//!
//! ```ignore
//! tell_destinations(&socket)?;
//! let mut buffer = Buffer::new(1500);
//! let Received { data, from, to } = receive(&socket, &mut buffer)?;
//! send(&socket, data, from, to)?;
//! ```

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _};

use socket2::{MaybeUninitSlice, MsgHdr, MsgHdrMut, SockAddr, SockRef};

/// Bytes of the longest datagram.
pub const MAX_DATAGRAM: usize = 65_535;

/// Room for control messages: one header and the longer of `in_pktinfo` and `in6_pktinfo` take 40 bytes.
const CONTROL: usize = 64;
/// The header of a control message: its length, level and type.
const HEADER: usize = aligned(size_of::<usize>() + 2 * size_of::<libc::c_int>());

/// Control messages begin at multiples of the size of a word.
const fn aligned(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

/// Where datagrams are received.
#[derive(Debug)]
pub struct Buffer {
    /// All of it is initialized, always.
    data: Box<[MaybeUninit<u8>]>,
    control: [MaybeUninit<u8>; CONTROL],
}

impl Buffer {
    /// A buffer for datagrams of up to `length` bytes; of longer ones, their beginning is received.
    pub fn new(length: usize) -> Self {
        let zero = MaybeUninit::new(0);
        Self { data: vec![zero; length].into_boxed_slice(), control: [zero; CONTROL] }
    }
}

/// A datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'b> {
    /// What was sent, as far as the buffer has room for it.
    pub data: &'b [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// The local address that it was sent to; `None` if the socket does not tell.
    pub to: Option<IpAddr>,
}

/// Has a socket tell the local address of each datagram.
///
/// Errors: of setsockopt(2).
pub fn tell_destinations(socket: &impl AsFd) -> io::Result<()> {
    let local = SockRef::from(socket).local_addr()?;
    let (level, option) = match local.is_ipv6() {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
    };
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "neither socket2 nor rustix has this option")]
    // SAFETY: the descriptor is open, and the value is an int of this length.
    let result = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw const on).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives a datagram.
///
/// Errors: of recvmsg(2); `WouldBlock` if there is none.
pub fn receive<'b>(socket: &impl AsFd, buffer: &'b mut Buffer) -> io::Result<Received<'b>> {
    let socket = SockRef::from(socket);
    // Room for a sender of either family.
    let mut from = SockAddr::from(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)));
    let mut data = [MaybeUninitSlice::new(&mut buffer.data)];
    let mut message =
        MsgHdrMut::new().with_addr(&mut from).with_buffers(&mut data).with_control(&mut buffer.control);
    let length = socket.recvmsg(&mut message, 0)?;
    let told = message.control_len();
    let to = destination(initialized(buffer.control.get(..told).unwrap_or_default()));
    let data = initialized(buffer.data.get(..length).unwrap_or(&buffer.data));
    let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Received { data, from, to })
}

/// Receives a datagram of the peer that a socket is connected to.
///
/// Errors: of recv(2), also what was told of datagrams that were sent before; `WouldBlock` if there is none.
pub fn receive_from_peer<'b>(socket: &impl AsFd, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
    let length = SockRef::from(socket).recv(&mut buffer.data)?;
    Ok(initialized(buffer.data.get(..length).unwrap_or(&buffer.data)))
}

/// Sends a datagram, from this local address if there is one.
///
/// Errors: of sendmsg(2); `WouldBlock` if there is no room for it.
pub fn send(socket: &impl AsFd, data: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
    let to = SockAddr::from(to);
    let data = [IoSlice::new(data)];
    let message = MsgHdr::new().with_addr(&to).with_buffers(&data);
    let socket = SockRef::from(socket);
    match from.map(source) {
        Some((control, length)) => {
            let control = control.get(..length).unwrap_or(&control);
            socket.sendmsg(&message.with_control(control), 0)?
        }
        None => socket.sendmsg(&message, 0)?,
    };
    Ok(())
}

/// The bytes of a [`Buffer`].
fn initialized(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    #[expect(unsafe_code, reason = "socket2 receives into memory that need not be initialized")]
    // SAFETY: a buffer is initialized when it is made, and only the system writes to it, whole bytes.
    unsafe {
        bytes.assume_init_ref()
    }
}

/// The local address that control messages tell.
fn destination(mut control: &[u8]) -> Option<IpAddr> {
    loop {
        let length = usize::from_ne_bytes(*control.first_chunk()?);
        let (level, rest) = control.get(size_of::<usize>()..)?.split_first_chunk()?;
        let (level, kind) = (i32::from_ne_bytes(*level), i32::from_ne_bytes(*rest.first_chunk()?));
        let data = control.get(HEADER..length)?;
        match (level, kind) {
            // The index of an interface, the address to answer from, and the one in the datagram.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                return Some(IpAddr::from(*data.get(4..)?.first_chunk::<4>()?));
            }
            // The address, and the index of an interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                return Some(IpAddr::from(*data.first_chunk::<16>()?));
            }
            _ => control = control.get(aligned(length)..)?,
        }
    }
}

/// The control message that sends from an address, and its length.
fn source(from: IpAddr) -> ([u8; CONTROL], usize) {
    let mut control = [0; CONTROL];
    let (level, kind, before) = match from {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, 4),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 0),
    };
    let (v4, v6);
    let address: &[u8] = match from {
        IpAddr::V4(address) => {
            v4 = address.octets();
            &v4
        }
        IpAddr::V6(address) => {
            v6 = address.octets();
            &v6
        }
    };
    // With four bytes behind the address: of the one that is not told, or of the interface, where 0 is that of the route.
    let length = HEADER + before + address.len() + 4;
    let parts: [(usize, &[u8]); 4] = [
        (0, &length.to_ne_bytes()),
        (size_of::<usize>(), &level.to_ne_bytes()),
        (size_of::<usize>() + size_of::<libc::c_int>(), &kind.to_ne_bytes()),
        (HEADER + before, address),
    ];
    for (place, bytes) in parts {
        let room = control.get_mut(place..).unwrap_or_default();
        room.iter_mut().zip(bytes).for_each(|(room, byte)| *room = *byte);
    }
    (control, aligned(length))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    }

    #[test]
    fn an_answer_comes_from_the_address_that_was_written_to() {
        for (any, own) in [("0.0.0.0:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.77"), ("[::]:0", "::1")] {
            let server = socket(any);
            tell_destinations(&server).unwrap();
            let address = SocketAddr::new(own.parse().unwrap(), server.local_addr().unwrap().port());
            let client = socket(any);
            // Only what comes from there is received.
            client.connect(address).unwrap();
            let mut buffer = Buffer::new(1500);
            for text in ["hello", "", "again"] {
                client.send(text.as_bytes()).unwrap();
                let received = receive(&server, &mut buffer).unwrap();
                assert_eq!(received.data, text.as_bytes(), "{own}");
                assert_eq!(received.from, client.local_addr().unwrap());
                assert_eq!(received.to, Some(address.ip()));
                send(&server, received.data, received.from, received.to).unwrap();
                let mut bytes = [0; 16];
                let length = client.recv(&mut bytes).unwrap();
                assert_eq!(&bytes[..length], text.as_bytes());
            }
        }
    }

    #[test]
    fn a_socket_of_one_address_tells_none_and_a_long_datagram_is_cut() {
        let (server, client) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        client.connect(server.local_addr().unwrap()).unwrap();
        client.send(&[7; 200]).unwrap();
        let mut buffer = Buffer::new(100);
        let received = receive(&server, &mut buffer).unwrap();
        assert_eq!((received.data, received.to), (&[7; 100][..], None));
        let from = received.from;
        send(&server, &[8; MAX_DATAGRAM - 28], from, None).unwrap();
        let mut bytes = vec![0; MAX_DATAGRAM];
        assert_eq!(client.recv(&mut bytes).unwrap(), MAX_DATAGRAM - 28, "the longest there is");
        server.connect(from).unwrap();
        client.send(b"x").unwrap();
        assert_eq!(receive_from_peer(&server, &mut buffer).unwrap(), b"x");
        assert!(send(&server, &[8; MAX_DATAGRAM], from, None).is_err());
        drop(client);
        send(&server, b"x", from, None).unwrap();
        let told = receive_from_peer(&server, &mut buffer).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::ConnectionRefused, "nobody listens");
        server.set_nonblocking(true).unwrap();
        assert_eq!(receive(&server, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn control_messages_that_are_cut_or_of_other_kinds_tell_nothing() {
        for address in ["192.0.2.1", "2001:db8::1"] {
            let address: IpAddr = address.parse().unwrap();
            let (control, length) = source(address);
            // What is sent has the layout of what is received.
            assert_eq!(destination(&control[..length]), Some(address));
            for cut in 0..HEADER + 8 {
                assert_eq!(destination(&control[..cut]), None, "{cut}");
            }
            let mut other = control;
            other[size_of::<usize>()] ^= 0x40;
            assert_eq!(destination(&other[..length]), None);
            let both = [&other[..length], &control[..length]].concat();
            assert_eq!(destination(&both), Some(address), "behind another one");
            for claimed in [0, 1, HEADER - 1, usize::MAX] {
                let mut wrong = control;
                wrong[..size_of::<usize>()].copy_from_slice(&claimed.to_ne_bytes());
                assert_eq!(destination(&wrong[..length]), None, "{claimed}");
            }
        }
    }
}
