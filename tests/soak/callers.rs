//! Clients of all kinds: valid, failing by their handlers, and violating the protocol.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tonic::Code;

use super::configuration::{check, report};
use crate::support::http2::{self, Frame, check_headers, frame};
use crate::support::rpc::{self, Client};
use crate::support::{DEADLINE, Server, http, programs, run, sum_of_samples};

/// Clients of all kinds, until they are stopped.
pub(crate) struct Crowd {
    stop: Arc<AtomicBool>,
    /// Calls by kind.
    calls: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    /// Unexpected results.
    failures: Arc<Mutex<Vec<String>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    pub(crate) fn new() -> Self {
        Self { stop: Arc::default(), calls: Arc::default(), failures: Arc::default(), threads: Vec::new() }
    }

    /// Adds a client that repeats an action with a pause, which sets its rate.
    fn add(
        &mut self,
        kind: &'static str,
        pause: Duration,
        mut act: impl FnMut() -> Result<(), String> + Send + 'static,
    ) {
        let (stop, calls, failures) = (self.stop.clone(), self.calls.clone(), self.failures.clone());
        self.threads.push(std::thread::spawn(move || {
            let mut made = 0;
            while !stop.load(Ordering::Relaxed) {
                if let Err(failure) = act() {
                    failures.lock().expect("no caller panics").push(format!("{kind}: {failure}"));
                }
                made += 1;
                std::thread::sleep(pause);
            }
            *calls.lock().expect("no caller panics").entry(kind).or_default() += made;
        }));
    }

    /// Stops all clients: calls by kind, and failures.
    pub(crate) fn stop(self) -> (BTreeMap<&'static str, u64>, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no caller panics");
        }
        let failures = self.failures.lock().expect("no caller panics").clone();
        let calls = self.calls.lock().expect("no caller panics").clone();
        (calls, failures)
    }
}

/// The code and message of a check that must be answered.
pub(crate) fn decided(client: &mut Client, user: &str) -> Result<(i32, String), String> {
    let answer = client.check(&check(user), None).map_err(|status| status.to_string())?;
    if user == "ann" {
        let granted = answer.quotas.get("calls").map(|quota| quota.granted_amount);
        if granted != Some(1) {
            return Err(format!("the quota grants {granted:?}"));
        }
    }
    let status = answer.precondition.unwrap_or_default().status.unwrap_or_default();
    Ok((status.code, status.message))
}

/// Clients whose calls must all be answered.
pub(crate) fn valid_clients(crowd: &mut Crowd, address: &str) {
    for _ in 0..2 {
        let mut client = Client::new(address).expect("a client");
        crowd.add("check", Duration::from_micros(300), move || {
            for (user, code) in [("ann", 0), ("mallory", 7), ("changed", 7)] {
                let (answered, message) = decided(&mut client, user)?;
                if answered != code {
                    return Err(format!("{user} is answered {answered} {message:?}"));
                }
            }
            Ok(())
        });
    }
    let mut client = Client::new(address).expect("a client");
    crowd.add("report", Duration::from_micros(500), move || {
        client.report(&report("ann", 10), None).map_err(|status| status.to_string())
    });
    let address = address.to_owned();
    crowd.add("check over a new connection", Duration::from_millis(20), move || {
        let mut client = Client::new(&address)?;
        match decided(&mut client, "mallory")? {
            (7, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

/// Pool size and queue length; far below the defaults, so that an accumulation of calls reaches them.
pub(crate) const POOL: f64 = 64.0;

/// Monitoring: fails when a bound is exceeded or a probe fails.
pub(crate) fn monitors(crowd: &mut Crowd, server: &Server) {
    let url = server.monitoring_url("/metrics");
    crowd.add("scrape", Duration::from_millis(500), move || {
        let exposition = http("GET", &url, "")?.body;
        // The pool of the API and, over all handlers, those of the adapters: calls that hang and panic use two.
        for (name, most) in [("mixer_pool_in_flight", 3.0 * POOL), ("mixer_pool_queued", 3.0 * POOL)] {
            let now = sum_of_samples(&exposition, name);
            if now > most {
                return Err(format!("{name} is {now}"));
            }
        }
        match sum_of_samples(&exposition, "mixer_pool_refused_total") {
            0.0 => Ok(()),
            refused => Err(format!("{refused} calls were refused")),
        }
    });
    let address = server.address();
    crowd.add("probe", Duration::from_millis(500), move || probe(&address));
}

/// Asks the health service. Errors: what `probe` prints.
pub(crate) fn probe(address: &str) -> Result<(), String> {
    let arguments = ["probe", "--grpc", address, "--timeout", "60s"].map(str::to_owned);
    let finished = run(&programs().path("mixer"), &arguments, &[], None, None, DEADLINE)?;
    if finished.status == 0 { Ok(()) } else { Err(finished.stderr) }
}

/// Clients whose calls reach handlers that panic or hang.
pub(crate) fn failing_clients(crowd: &mut Crowd, address: &str) {
    let mut client = Client::new(address).expect("a client");
    crowd.add("check that panics", Duration::from_millis(5), move || {
        match client.check(&check("panic"), None) {
            Err(status) if status.code() == Code::Internal => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let mut client = Client::new(address).expect("a client");
    crowd.add("report that panics", Duration::from_millis(5), move || {
        match client.report(&report("panic", 2), None) {
            Err(status) if status.code() == Code::Unknown => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    for _ in 0..3 {
        let mut client = Client::new(address).expect("a client");
        crowd.add("check that hangs", Duration::from_millis(5), move || {
            match client.check(&check("hang"), Some(Duration::from_millis(200))) {
                Err(status) if ENDED.contains(&status.code()) => Ok(()),
                // The server noticed first: the check could not be carried out.
                Err(status) if status.code() == Code::Internal && status.message().contains(NO_ANSWER) => {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        });
    }
}

/// How a call past its deadline ends when the client notices first.
const ENDED: [Code; 2] = [Code::DeadlineExceeded, Code::Cancelled];
/// What the server says of a handler that hangs.
const NO_ANSWER: &str = "did not answer before the deadline of the call";

/// Error codes of RFC 9113, section 7.
const PROTOCOL_ERROR: u32 = 0x1;
const FRAME_SIZE_ERROR: u32 = 0x6;

/// What the server answers on a connection whose client sends no more; empty when it is reset.
fn answer(mut stream: &TcpStream) -> Result<Vec<Frame>, String> {
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(DEADLINE)).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            Err("the connection stays open".to_owned())
        }
        _ => Ok(http2::frames(&bytes)),
    }
}

/// Clients that stall, reset, violate HTTP/2 or do not read.
pub(crate) fn hostile_clients(crowd: &mut Crowd, address: SocketAddr) {
    let connect = move || TcpStream::connect(address).map_err(|error| error.to_string());
    // A write may fail once the server has closed the connection.
    let send = |mut stream: &TcpStream, bytes: &[u8]| drop(stream.write_all(bytes));
    crowd.add("connection that stalls", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, &http2::PREFACE[..http2::PREFACE.len() / 2]);
        // The stall.
        std::thread::sleep(Duration::from_millis(700));
        Ok(())
    });
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()
    };
    crowd.add("connection with garbage", Duration::from_millis(10), move || {
        let stream = connect()?;
        let garbage: Vec<u8> = (0..64).flat_map(|_| noise()).collect();
        // Every second connection begins with a valid preface.
        let within = garbage.first().is_some_and(|byte| byte % 2 == 0);
        if within {
            send(&stream, http2::PREFACE);
        }
        send(&stream, &garbage);
        // Without the preface the first byte is a protocol error; with it, almost any first frame is too large.
        let is_oversized = garbage.first().is_some_and(|byte| *byte != 0);
        let expected = match (within, is_oversized) {
            (false, _) => PROTOCOL_ERROR,
            (true, true) => FRAME_SIZE_ERROR,
            (true, false) => return Ok(()),
        };
        let answer = answer(&stream)?;
        let goaway = answer.iter().rfind(|frame| frame.kind == http2::GOAWAY);
        if goaway.and_then(Frame::error_code) != Some(expected) {
            return Err(format!("expected GOAWAY with error code {expected}, found {answer:?}"));
        }
        Ok(())
    });
    crowd.add("connection that is reset", Duration::from_millis(10), move || {
        let stream = connect()?;
        send(&stream, http2::PREFACE);
        // The head of a HEADERS frame whose payload is never sent.
        send(&stream, b"\0\0\x40\x01\x04\0\0\0\x01");
        // SO_LINGER 0 with unread input: the connection is reset.
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).map_err(|error| error.to_string())
    });
    crowd.add("client that does not read", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, http2::PREFACE_WITHOUT_WINDOW);
        // Checks whose answers the window does not admit.
        for number in 0..50 {
            send(
                &stream,
                &[
                    check_headers(2 * number + 1),
                    frame(http2::DATA, http2::END_STREAM, 2 * number + 1, &[0; 5]),
                ]
                .concat(),
            );
        }
        // The stall.
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    });
    crowd.add("client that stops within a message", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, http2::PREFACE);
        send(&stream, &[check_headers(1), frame(http2::DATA, 0, 1, b"\0\0\0\x01\0 of 256 bytes")].concat());
        // The stall.
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    });
    crowd.add("client that resets its calls", Duration::from_millis(20), move || {
        let stream = connect()?;
        send(&stream, http2::PREFACE);
        for number in 0..100 {
            let stream_id = 2 * number + 1;
            send(
                &stream,
                &[check_headers(stream_id), frame(http2::RST_STREAM, 0, stream_id, &[0, 0, 0, 8])].concat(),
            );
        }
        Ok(())
    });
    let mut client = Client::new(&address.to_string()).expect("a client");
    crowd.add("call that is cancelled", Duration::from_millis(3), move || {
        // Mostly too short for an answer.
        let body = prost::Message::encode_to_vec(&check("ann"));
        match client.call(rpc::CHECK, body, Some(Duration::from_micros(50))) {
            Ok(_) => Ok(()),
            Err(status) if ENDED.contains(&status.code()) => Ok(()),
            // The client library closes its connection after many answers to calls that it has cancelled and forgotten.
            Err(status) if status.to_string().contains("too_many_internal_resets") => Ok(()),
            Err(status) => Err(status.to_string()),
        }
    });
    let mut client = Client::new(&address.to_string()).expect("a client");
    crowd.add("message with garbage", Duration::from_millis(3), move || {
        match client.call(rpc::CHECK, vec![0x0a, 0xff, 0xff, 0x7f], None) {
            Err(status) if status.code() == Code::Internal => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
