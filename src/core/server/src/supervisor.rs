//! Service notification (sd_notify): ready, reloading, stopping, watchdog.
//!
//! A message is a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`. The crate `sd-notify` (0.5) does neither abstract
//! addresses nor non-blocking sends, so that a full socket buffer would block the watchdog task.
//! See docs/operations.md.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The service manager of this process.
#[derive(Debug)]
pub struct Supervisor {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The service manager in the environment; `None` if there is none or it is unreachable.
    pub(crate) fn from_environment() -> Option<Self> {
        let address = std::env::var("NOTIFY_SOCKET").ok().filter(|a| !a.is_empty())?;
        // The watchdog may be for another process, for example a wrapper.
        let ours = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| ours);
        match Self::connect(&address, watchdog.as_deref()) {
            Ok(supervisor) => Some(supervisor),
            Err(error) => {
                tracing::warn!(address, %error, "NOTIFY_SOCKET is unreachable");
                None
            }
        }
    }

    /// Connects to `address`: a path, or an abstract name after `@`. `watchdog` is its timeout in microseconds.
    ///
    /// Errors: the address is unreachable.
    pub fn connect(address: &str, watchdog: Option<&str>) -> io::Result<Self> {
        use std::os::linux::net::SocketAddrExt as _;
        let socket = UnixDatagram::unbound()?;
        match address.strip_prefix('@') {
            Some(name) => {
                socket.connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?;
            }
            None => socket.connect(address)?,
        }
        socket.set_nonblocking(true)?;
        let watchdog = watchdog.and_then(|text| text.parse().ok()).filter(|micros| *micros > 0);
        Ok(Self { socket, watchdog: watchdog.map(Duration::from_micros) })
    }

    /// The watchdog timeout, if enabled.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// READY=1 with a one-line status.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// RELOADING=1; [`ready`](Self::ready) ends the reload.
    pub(crate) fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_micros()));
    }

    /// STOPPING=1.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// WATCHDOG=1.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        // Best effort.
        if let Err(error) = self.socket.send(message.as_bytes()) {
            tracing::debug!(%error, "service notification failed");
        }
    }
}

/// CLOCK_MONOTONIC in microseconds.
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 512];
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn every_state_is_notified() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::connect(path.to_str().unwrap(), Some("30000000")).unwrap();
        assert_eq!(supervisor.watchdog(), Some(Duration::from_secs(30)));
        supervisor.ready("serving");
        assert_eq!(received(&socket), "READY=1\nSTATUS=serving");
        supervisor.alive();
        assert_eq!(received(&socket), "WATCHDOG=1");
        supervisor.reloading();
        let reloading = received(&socket);
        let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(micros.parse::<u64>().unwrap() > 0);
        supervisor.stopping();
        assert_eq!(received(&socket), "STOPPING=1\nSTATUS=stopping");
    }

    #[test]
    fn abstract_addresses_work() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("mixer-notify-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let supervisor = Supervisor::connect(&format!("@{name}"), None).unwrap();
        assert_eq!(supervisor.watchdog(), None);
        supervisor.alive();
        assert_eq!(received(&socket), "WATCHDOG=1");
    }

    #[test]
    fn an_unreachable_address_is_an_error_and_a_lost_message_is_not() {
        assert!(Supervisor::connect("/nowhere/notify", None).is_err());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::connect(path.to_str().unwrap(), Some("0")).unwrap();
        assert_eq!(supervisor.watchdog(), None);
        drop(socket);
        supervisor.alive();
    }
}
