//! The client of a server under attack, or whose backends fail, on [`POLICY`](super::policy::POLICY): calls at a fixed rate, whatever the
//! answers take.
//!
//! One thread sends, another receives. A latency begins when a call is sent; if the client itself holds a call back, because too many
//! are unanswered, when it was due. It ends when the answer has arrived at the client's socket: on the core of the client, attackers are
//! in the kernel, where nothing preempts them. What the server's core lost to others meanwhile does not count (see [`LostTime`]).

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prost::Message as _;

use super::cores::{Cores, at_once};
use super::http2::{DATA, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, frame};
use super::lost_time::{LostTime, Witness};
use super::policy::{DENIED, check};
use super::rpc::{CHECK, mixer};
use super::wire::{call, connect, wide_open};
use super::{DEADLINE, Server, arrival};

/// Time between two calls.
const INTERVAL: Duration = Duration::from_millis(2);
/// Time between two new connections, of which each makes one call.
const CONNECT_INTERVAL: Duration = Duration::from_millis(60);
/// Connections that stay open, so that no descriptor of the server becomes free for the next one.
const KEPT: usize = 16;
/// Most calls without an answer.
const UNANSWERED: usize = 256;
/// The flag ACK of SETTINGS and PING.
const ACK: u8 = 1;

/// What the good client met.
#[derive(Default)]
pub(crate) struct Served {
    /// Beginning and end of each call on an open connection.
    calls: Vec<(Instant, Instant)>,
    lost: LostTime,
    /// The latencies of calls on new connections, from before the connection.
    connected: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

impl Served {
    /// The number of calls.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len() + self.connected.len()
    }

    /// A quantile of the latencies of calls on an open connection, without what the server's core lost.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let latency = |(since, until): &(Instant, Instant)| {
            until.saturating_duration_since(*since).saturating_sub(self.lost.between(*since, *until))
        };
        let latencies: Vec<Duration> = self.calls.iter().map(latency).collect();
        quantile(&latencies, share)
    }

    /// The share of the time that the server's core lost.
    pub(crate) fn lost_share(&self) -> f64 {
        self.lost.share()
    }

    /// A quantile of the latencies of calls on new connections.
    pub(crate) fn connected_quantile(&self, share: f64) -> Duration {
        quantile(&self.connected, share)
    }
}

fn quantile(latencies: &[Duration], share: f64) -> Duration {
    let mut sorted = latencies.to_vec();
    sorted.sort();
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Calls a server at a fixed rate for `length` and until `done`.
pub(crate) fn serve(server: &Server, length: Duration, done: impl Fn() -> bool + Sync) -> Served {
    let (port, stop) = (server.ports.api, AtomicBool::new(false));
    let traffic = Traffic::open(port);
    let witness = Witness::start(server.id());
    let is_measured = Cores::only_of_server().is_some();
    let end = Instant::now() + length;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            first_of_its_core(is_measured);
            traffic.receive(&stop)
        });
        let connector = scope.spawn(|| connect_often(port, &stop));
        let sender = scope.spawn(|| {
            first_of_its_core(is_measured);
            traffic.send(|| Instant::now() >= end && done());
        });
        sender.join().expect("the sender does not panic");
        stop.store(true, Ordering::Relaxed);
        let mut served = receiver.join().expect("the receiver does not panic");
        let connected = connector.join().expect("the connector does not panic");
        served.connected = connected.connected;
        served.lost = witness.map(Witness::end).unwrap_or_default();
        served.failures.extend(connected.failures);
        served
    })
}

/// What measures waits for nobody on its core: a read has the time of the last answer only, so that one that waits longer than the time between two
/// calls makes the answers before that one late.
fn first_of_its_core(is_measured: bool) {
    if is_measured {
        at_once();
    }
}

/// A call without an answer: since when, and whether it must be denied.
struct Unanswered {
    since: Instant,
    is_denied: bool,
}

/// The calls on one connection.
struct Traffic {
    /// For frames of both threads.
    output: Mutex<TcpStream>,
    input: TcpStream,
    unanswered: Mutex<BTreeMap<u32, Unanswered>>,
    answered: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traffic {
    fn open(port: u16) -> Self {
        let input = connect(port, &wide_open()).expect("a connection");
        input.set_nodelay(true).expect("an open socket");
        let output = Mutex::new(input.try_clone().expect("a descriptor"));
        Self { output, input, unanswered: Mutex::default(), answered: Condvar::new() }
    }

    fn send(&self, done: impl Fn() -> bool) {
        let began = Instant::now();
        for number in 0_u32.. {
            let due = began + INTERVAL * number;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if done() {
                return;
            }
            let user = match number % 4 {
                0 => DENIED.to_owned(),
                1 => format!("new {number}"),
                _ => "ann".to_owned(),
            };
            let stream = 2 * number + 1;
            let bytes = call(stream, CHECK, &check(&user).encode_to_vec());
            let mut unanswered = lock(&self.unanswered);
            let mut since = Instant::now();
            while unanswered.len() >= UNANSWERED {
                since = due;
                let waited = self.answered.wait_timeout(unanswered, DEADLINE);
                let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                unanswered = guard;
                if timeout.timed_out() {
                    // The receiver counts them.
                    return;
                }
            }
            unanswered.insert(stream, Unanswered { since, is_denied: user == DENIED });
            drop(unanswered);
            if lock(&self.output).write_all(&bytes).is_err() {
                // The receiver finds the connection closed.
                return;
            }
        }
    }

    /// Receives until `stop` is set and every call is answered.
    fn receive(&self, stop: &AtomicBool) -> Served {
        let mut served = Served::default();
        let mut messages: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        arrival::note_times(&self.input);
        let mut frames = Frames::new(&self.input);
        let mut stopped: Option<Instant> = None;
        loop {
            let frame = match frames.next() {
                Ok(frame) => frame,
                Err(error) => {
                    served.failures.push(format!("the connection ends: {error}"));
                    break;
                }
            };
            match frame {
                Some((DATA, _, stream, payload)) => {
                    messages.entry(stream).or_default().extend_from_slice(&payload);
                }
                Some((HEADERS, flags, stream, _)) if flags & END_STREAM != 0 => {
                    let found = lock(&self.unanswered).remove(&stream);
                    self.answered.notify_one();
                    let message = messages.remove(&stream).unwrap_or_default();
                    if let Some(Unanswered { since, is_denied }) = found {
                        served.calls.push((since, frames.arrived));
                        served.failures.extend(verify(&message, is_denied).err());
                    }
                }
                Some((RST_STREAM, _, stream, payload)) => {
                    lock(&self.unanswered).remove(&stream);
                    served.failures.push(format!("a call is reset: {payload:?}"));
                }
                Some((GOAWAY, _, _, payload)) => served.failures.push(format!("GOAWAY: {payload:?}")),
                Some((kind @ (SETTINGS | PING), flags, _, payload)) if flags & ACK == 0 => {
                    let payload = if kind == PING { payload } else { Vec::new() };
                    let _ = lock(&self.output).write_all(&frame_with_ack(kind, &payload));
                }
                _ => {}
            }
            if stop.load(Ordering::Relaxed) {
                if lock(&self.unanswered).is_empty() {
                    return served;
                }
                if stopped.get_or_insert_with(Instant::now).elapsed() > DEADLINE {
                    break;
                }
            }
        }
        let count = lock(&self.unanswered).len();
        served.failures.extend((count > 0).then(|| format!("{count} calls are not answered")));
        served
    }
}

fn frame_with_ack(kind: u8, payload: &[u8]) -> Vec<u8> {
    frame(kind, ACK, 0, payload)
}

/// Whether the answer to a check is right.
fn verify(message: &[u8], is_denied: bool) -> Result<(), String> {
    let message = message.get(5..).ok_or_else(|| format!("no message: {message:?}"))?;
    let answer = mixer::CheckResponse::decode(message).map_err(|error| error.to_string())?;
    let code = answer.precondition.unwrap_or_default().status.unwrap_or_default().code;
    match (code, is_denied) {
        (7, true) | (0, false) => Ok(()),
        _ => Err(format!("code {code}, denied: {is_denied}")),
    }
}

/// Kind, flags, stream and payload of a frame.
pub(crate) type Frame = (u8, u8, u32, Vec<u8>);

/// Frames from a socket.
pub(crate) struct Frames<'s> {
    socket: &'s TcpStream,
    bytes: Vec<u8>,
    begin: usize,
    /// When the last bytes read had arrived.
    arrived: Instant,
}

impl<'s> Frames<'s> {
    pub(crate) fn new(socket: &'s TcpStream) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a duration above zero");
        Self { socket, bytes: Vec::new(), begin: 0, arrived: Instant::now() }
    }

    /// The next frame; `None` if there is none yet.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, String> {
        if let Some(frame) = self.take() {
            return Ok(Some(frame));
        }
        self.bytes.drain(..self.begin);
        self.begin = 0;
        let mut buffer = [0; 16 << 10];
        match arrival::read(self.socket, &mut buffer) {
            Ok((0, _)) => return Err("closed".to_owned()),
            Ok((count, arrived)) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                self.arrived = arrived;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(self.take())
    }

    fn take(&mut self) -> Option<Frame> {
        let rest = self.bytes.get(self.begin..)?;
        let &[a, b, c, kind, flags, s, t, u, v, ..] = rest else { return None };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = rest.get(9..9 + length)?.to_vec();
        self.begin += 9 + length;
        Some((kind, flags, u32::from_be_bytes([s, t, u, v]) & 0x7fff_ffff, payload))
    }
}

/// Opens connections, each for one call.
fn connect_often(port: u16, stop: &AtomicBool) -> Served {
    let mut served = Served::default();
    let mut kept = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        match call_once(port) {
            Ok(connection) => {
                served.connected.push(began.elapsed());
                if kept.len() < KEPT {
                    kept.push(connection);
                }
            }
            Err(error) => served.failures.push(format!("a new connection: {error}")),
        }
        // The rate of new connections.
        std::thread::sleep(CONNECT_INTERVAL.saturating_sub(began.elapsed()));
    }
    served
}

fn call_once(port: u16) -> Result<TcpStream, String> {
    let connection =
        connect(port, &[wide_open(), call(1, CHECK, &check("connected").encode_to_vec())].concat())?;
    let mut frames = Frames::new(&connection);
    let (began, mut message) = (Instant::now(), Vec::new());
    while began.elapsed() < DEADLINE {
        match frames.next()? {
            Some((DATA, _, 1, payload)) => message.extend(payload),
            Some((HEADERS, flags, 1, _)) if flags & END_STREAM != 0 => {
                verify(&message, false)?;
                return Ok(connection);
            }
            Some((RST_STREAM | GOAWAY, _, _, payload)) => return Err(format!("refused: {payload:?}")),
            _ => {}
        }
    }
    Err("no answer".to_owned())
}
