//! When the kernel received what a socket has: the time for which the reader waits for a core does not count.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Room for the time of arrival among the control messages of recvmsg(2).
const CONTROL: usize = 64;

/// Asks the kernel for times of arrival (`SO_TIMESTAMPNS`, socket(7)).
pub(crate) fn note_times(socket: &TcpStream) {
    let on: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&on)).expect("four bytes");
    #[expect(unsafe_code, reason = "an option that the standard library does not have")]
    // SAFETY: the system reads `size` bytes of `on`.
    let set = unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, value, size)
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

/// Reads, and tells when the last byte read had arrived; now if the kernel does not tell.
pub(crate) fn read(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Instant)> {
    // Aligned as the headers of control messages must be.
    let mut control = [0_u64; CONTROL / 8];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    #[expect(unsafe_code, reason = "recvmsg, which the standard library does not have")]
    // SAFETY: zeros are a message without parts; its pointers are set to memory that outlives the call, with the lengths of that
    // memory. CMSG_FIRSTHDR returns null or a header within the length that the system wrote, and its data is a timespec if level and
    // type say so.
    let (count, arrived) = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), CONTROL);
        let count = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_time = count > 0
            && !header.is_null()
            && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let arrived =
            is_time.then(|| std::ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::timespec>()));
        (count, arrived)
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok((count, arrived.map_or_else(Instant::now, instant)))
}

/// The same point in time on the monotonic clock.
fn instant(time: libc::timespec) -> Instant {
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    let since_epoch = Duration::new(seconds.expect("after 1970"), nanos.expect("below a second"));
    let now = Instant::now();
    let ago = SystemTime::now().duration_since(UNIX_EPOCH + since_epoch).unwrap_or_default();
    now.checked_sub(ago).unwrap_or(now)
}
