//! Sessions of clients with certificates that a server resumes: for some hours after the full handshake in which the certificate was verified,
//! and not beyond the validity of its chain.
//!
//! rustls keeps the chain of a client with a session, and verifies it no more; each resumption gives new tickets, without end. So the storage
//! says until when a session may be resumed, and a session that comes from a resumed one has the end of that. What a session is of, the storage
//! learns from the handshake that the task is in: [`handshake`].

use std::cell::Cell;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::validity::validity;

/// Time after the verification of a client in which its sessions are resumed.
const RESUMED: Duration = Duration::from_secs(2 * 3600);
/// Sessions that are kept, as rustls does.
const MAX_SESSIONS: usize = 256;
/// Bytes of [`Terms`].
const LENGTH: usize = 16;

/// What times count from that do not depend on the clock of the machine.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

tokio::task_local! {
    /// The session of the handshake that the task is in.
    static CURRENT: Cell<Terms>;
}

/// Until when a session may be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    /// When its client was verified: milliseconds from [`START`].
    verified: u64,
    /// The end of the validity of its chain: seconds of Unix time.
    not_after: u64,
}

impl Terms {
    /// Of a handshake that begins. The chain of its client, if it has one, follows.
    fn begin() -> Self {
        Self { verified: now(), not_after: u64::MAX }
    }

    fn allow(self) -> bool {
        self.allow_at(now(), unix_time())
    }

    fn allow_at(self, now: u64, unix_time: u64) -> bool {
        let elapsed = Duration::from_millis(now.saturating_sub(self.verified));
        elapsed < RESUMED && unix_time <= self.not_after
    }

    fn bytes(self) -> [u8; LENGTH] {
        let both = u128::from(self.verified) << 64 | u128::from(self.not_after);
        both.to_be_bytes()
    }

    fn of(bytes: [u8; LENGTH]) -> Self {
        let both = u128::from_be_bytes(bytes);
        let half = |half: u128| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0);
        Self { verified: half(both >> 64), not_after: half(both) }
    }
}

/// Milliseconds from [`START`].
fn now() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(u64::MAX, |since| since.as_secs())
}

/// Runs the handshake of a server, whose sessions are those of its client.
pub(crate) async fn handshake<F: Future>(handshake: F) -> F::Output {
    CURRENT.scope(Cell::new(Terms::begin()), handshake).await
}

/// Notes that the client of this handshake was verified, with this chain.
pub(super) fn verified(certificate: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) {
    let end = |certificate: &CertificateDer<'_>| {
        let until = validity(certificate)?.until.to_system_time()?;
        Some(until.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
    };
    // One whose end is not known is not resumed.
    let ends = std::iter::once(certificate).chain(intermediates).map(|one| end(one).unwrap_or(0));
    let terms = Terms { verified: now(), not_after: ends.min().unwrap_or(0) };
    // A verifier may be asked outside of a handshake, by a test.
    let _ = CURRENT.try_with(|current| current.set(terms));
}

/// The sessions of a server. Memory: 256 of them.
#[derive(Debug)]
pub(super) struct Sessions(Arc<ServerSessionMemoryCache>);

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(ServerSessionMemoryCache::new(MAX_SESSIONS)))
    }

    /// The session in a value, which goes on in this handshake.
    fn open(mut value: Vec<u8>) -> Option<Vec<u8>> {
        let terms = Terms::of(*value.last_chunk::<LENGTH>()?);
        if !terms.allow() {
            return None;
        }
        CURRENT.try_with(|current| current.set(terms)).ok()?;
        value.truncate(value.len() - LENGTH);
        Some(value)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        // Without a handshake it is nobody's.
        let Ok(terms) = CURRENT.try_with(Cell::get) else { return false };
        if !terms.allow() {
            return false;
        }
        value.extend_from_slice(&terms.bytes());
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).and_then(Self::open)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key).and_then(Self::open)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_its_chain_and_after_some_hours() {
        let terms = Terms { verified: 5_000, not_after: 100 };
        let hours = u64::try_from(RESUMED.as_millis()).unwrap();
        assert!(terms.allow_at(5_000, 0) && terms.allow_at(4_999 + hours, 100));
        assert!(!terms.allow_at(5_000 + hours, 100), "after some hours");
        assert!(!terms.allow_at(5_000, 101), "after the end of its chain");
        assert_eq!(Terms::of(terms.bytes()), terms);
        let endless = Terms { verified: u64::MAX, not_after: u64::MAX };
        assert_eq!(Terms::of(endless.bytes()), endless);
    }

    #[tokio::test]
    async fn a_session_that_comes_from_another_one_has_its_end() {
        let sessions = Sessions::new();
        assert!(!sessions.put(b"nobody".to_vec(), b"x".to_vec()), "outside of a handshake");
        let first = Terms { verified: 0, not_after: u64::MAX - 1 };
        handshake(async {
            CURRENT.with(|current| current.set(first));
            assert!(sessions.put(b"first".to_vec(), b"session".to_vec()));
        })
        .await;
        assert_eq!(sessions.get(b"first"), None, "outside of a handshake");
        handshake(async {
            assert_ne!(CURRENT.with(Cell::get), first);
            assert_eq!(sessions.get(b"first").as_deref(), Some(&b"session"[..]));
            assert_eq!(CURRENT.with(Cell::get), first);
            assert!(sessions.put(b"second".to_vec(), b"next".to_vec()));
        })
        .await;
        handshake(async {
            assert_eq!(sessions.take(b"second").as_deref(), Some(&b"next"[..]));
            assert_eq!((CURRENT.with(Cell::get), sessions.take(b"second")), (first, None));
            // One whose chain has ended is not kept.
            CURRENT.with(|current| current.set(Terms { not_after: 0, ..first }));
            assert!(!sessions.put(b"third".to_vec(), b"x".to_vec()));
        })
        .await;
    }

    #[tokio::test]
    async fn the_end_of_a_chain_is_the_first_of_its_certificates() {
        let issued = |year: i32| {
            let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let (near, far) = (issued(2050), issued(2100));
        for (leaf, others, expected) in [
            (&near, vec![far.clone()], 2_524_608_000),
            (&far, vec![far.clone(), near.clone()], 2_524_608_000),
            (&far, Vec::new(), 4_102_444_800),
            (&far, vec![CertificateDer::from(vec![0])], 0),
        ] {
            handshake(async {
                verified(leaf, &others);
                assert_eq!(CURRENT.with(Cell::get).not_after, expected);
            })
            .await;
        }
    }
}
