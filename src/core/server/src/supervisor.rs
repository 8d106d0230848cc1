//! Tells systemd how the service is doing: ready, reloading, stopping, alive.
//!
//! The protocol is one datagram of `NAME=value` lines a message, to the socket that `NOTIFY_SOCKET` names.
//! Spec: cli-operations.md 9.7.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The supervisor of this process.
#[derive(Debug)]
pub struct Supervisor {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The supervisor that the environment names; none if there is none or it cannot be reached.
    pub fn from_environment() -> Option<Self> {
        let address = std::env::var("NOTIFY_SOCKET").ok().filter(|a| !a.is_empty())?;
        // The watchdog may be meant for another process, for example a wrapper.
        let ours = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| ours);
        match Self::connect(&address, watchdog.as_deref()) {
            Ok(supervisor) => Some(supervisor),
            Err(error) => {
                tracing::warn!(address, %error, "the supervisor in NOTIFY_SOCKET cannot be reached");
                None
            }
        }
    }

    /// A supervisor at `address`: a path, or an abstract name after `@`. `watchdog` is its patience in microseconds.
    ///
    /// Errors: nobody listens there.
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

    /// How long the supervisor waits for a sign of life, if it waits for one.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The service serves. `status` is one line for people.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The service reads its settings anew; [`ready`](Self::ready) ends that.
    pub fn reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_micros()));
    }

    /// One line for people.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    /// The service ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// A sign of life.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        // A supervisor that does not listen is no reason to stop serving.
        if let Err(error) = self.socket.send(message.as_bytes()) {
            tracing::debug!(%error, "the supervisor could not be told");
        }
    }
}

/// Microseconds of the monotonic clock: the time since the machine started, which systemd compares with its own.
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
    fn the_supervisor_hears_every_change() {
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
    fn abstract_names_are_reached() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("mixer-notify-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let supervisor = Supervisor::connect(&format!("@{name}"), None).unwrap();
        assert_eq!(supervisor.watchdog(), None);
        supervisor.status("here");
        assert_eq!(received(&socket), "STATUS=here");
    }

    #[test]
    fn nobody_there_is_an_error_and_a_lost_message_is_not() {
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
