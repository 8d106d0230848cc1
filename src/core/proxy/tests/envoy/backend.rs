//! A host that answers with what it received, or badly, as the path says.

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Starts the host; returns its port.
pub(crate) fn http() -> u16 {
    serve(|stream| {
        // The client ends the connection.
        let _ = answer_all(stream, |_| {});
    })
}

/// Starts the host; returns its port, and the requests that it receives as a whole.
pub(crate) fn recording() -> (u16, Arc<Mutex<Vec<String>>>) {
    let received = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&received);
    let port = serve(move |stream| {
        let _ = answer_all(stream, |shown| kept.lock().unwrap().push(shown.to_owned()));
    });
    (port, received)
}

/// Starts a host that echoes; returns its port.
pub(crate) fn echo() -> u16 {
    serve(|mut stream| {
        let Ok(mut back) = stream.try_clone() else { return };
        let _ = std::io::copy(&mut stream, &mut back);
        let _ = back.shutdown(std::net::Shutdown::Write);
    })
}

/// Starts a host that answers with its name, after a while if the path says so; returns its port.
pub(crate) fn named(name: &'static str) -> u16 {
    serve(move |mut stream| {
        let mut buffer = Vec::new();
        // The client ends the connection.
        while let Ok(head) = read_until(&mut stream, &mut buffer, b"\r\n\r\n") {
            if find(&head, b"/slow").is_some() {
                std::thread::sleep(Duration::from_millis(300));
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// Starts a host that reads requests with a length, and answers them: `/again/…` when it comes for the second time, and then the connection
/// ends; `/…/hold` after five seconds. Returns its port.
pub(crate) fn once() -> u16 {
    let seen = Arc::<Mutex<HashSet<Vec<u8>>>>::default();
    serve(move |mut stream| {
        let mut buffer = Vec::new();
        while let Ok(head) = read_until(&mut stream, &mut buffer, b"\r\n\r\n") {
            // Ten bytes.
            while buffer.len() < 10 {
                let mut piece = [0; 64];
                match stream.read(&mut piece) {
                    Ok(count @ 1..) => buffer.extend_from_slice(&piece[..count]),
                    _ => return,
                }
            }
            buffer.drain(..10);
            let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
            if find(&line, b"/hold").is_some() {
                std::thread::sleep(Duration::from_secs(5));
            }
            if find(&line, b"/again").is_some() && seen.lock().unwrap().insert(line) {
                return;
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    })
}

/// Starts a host that changes to a protocol of its own, in which it sends five bytes back and ends; returns its port.
pub(crate) fn upgrading() -> u16 {
    serve(|mut stream| {
        let mut buffer = Vec::new();
        let Ok(head) = read_until(&mut stream, &mut buffer, b"\r\n\r\n") else { return };
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        if head.contains("/refused") || !head.contains("\r\nupgrade:") {
            let _ = stream.write_all(
                b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nX-Up: 1\r\nContent-Length: 2\r\n\r\nno",
            );
            let _ = stream.read(&mut [0; 64]);
            return;
        }
        let protocol = if head.contains("upgrade: other") { "other" } else { "websocket" };
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nX-Up: 1\r\n\r\n"
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        while buffer.len() < 5 {
            let mut piece = [0; 64];
            match stream.read(&mut piece) {
                Ok(count @ 1..) => buffer.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        let _ = stream.write_all(&buffer);
    })
}

/// Starts a host that answers the requests for a path one after the other as the part before the last one says, with commas between: with a
/// status; `close` and `garbage`; `slow` for 200 after 0.8 s, `long` for 200 whose body ends after 0.8 s. Returns its port.
pub(crate) fn sequence() -> u16 {
    let asked = Arc::<Mutex<HashMap<String, usize>>>::default();
    serve(move |mut stream| {
        let mut buffer = Vec::new();
        // The client ends the connection.
        while let Ok(head) = read_until(&mut stream, &mut buffer, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            while buffer.len() < length.unwrap_or(0) {
                let mut piece = [0; 4096];
                let Ok(count @ 1..) = stream.read(&mut piece) else { return };
                buffer.extend_from_slice(&piece[..count]);
            }
            buffer.drain(..length.unwrap_or(0));
            let place = {
                let mut asked = asked.lock().unwrap();
                let place = asked.entry(path.clone()).or_default();
                *place += 1;
                *place - 1
            };
            let answers: Vec<&str> = path.rsplit('/').nth(1).unwrap_or_default().split(',').collect();
            let pause = Duration::from_millis(800);
            let mut answer = answers[place.min(answers.len() - 1)];
            if let Some(rest) = answer.strip_prefix("103+") {
                answer = rest;
                if stream.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n").is_err() {
                    return;
                }
                // So that it is read by itself.
                std::thread::sleep(Duration::from_millis(50));
            }
            let (before, status, body, rest) = match answer {
                "close" => return,
                "garbage" => {
                    let _ = stream.write_all(b"garbage\r\n\r\n");
                    return;
                }
                "slow" => (pause, "200", "", ""),
                "long" => (Duration::ZERO, "200", "a", "b"),
                // A limit further on.
                "limited" => (Duration::ZERO, "503 X\r\nx-envoy-ratelimited: true\r\nx:", "", ""),
                status => (Duration::ZERO, status, "", ""),
            };
            std::thread::sleep(before);
            let length = body.len() + rest.len();
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            if !rest.is_empty() {
                std::thread::sleep(pause);
                if stream.write_all(rest.as_bytes()).is_err() {
                    return;
                }
            }
        }
    })
}

fn serve(handle: impl Fn(TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            std::thread::spawn(move || handle(stream));
        }
    });
    port
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

/// Reads until `text`; returns what is before it.
fn read_until(stream: &mut TcpStream, buffer: &mut Vec<u8>, text: &[u8]) -> std::io::Result<Vec<u8>> {
    loop {
        if let Some(at) = find(buffer, text) {
            let rest = buffer.split_off(at + text.len());
            let mut before = std::mem::replace(buffer, rest);
            before.truncate(at);
            return Ok(before);
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        buffer.extend_from_slice(&piece[..count]);
    }
}

fn answer_all(mut stream: TcpStream, mut tell: impl FnMut(&str)) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let head = read_until(&mut stream, &mut buffer, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let body = if let Some(length) = length {
            while buffer.len() < length {
                let mut piece = [0; 4096];
                let count = stream.read(&mut piece)?;
                if count == 0 {
                    return Ok(());
                }
                buffer.extend_from_slice(&piece[..count]);
            }
            let rest = buffer.split_off(length);
            std::mem::replace(&mut buffer, rest)
        } else if head.contains("transfer-encoding: chunked") {
            // Chunks may be cut differently: their data counts.
            let mut data = Vec::new();
            loop {
                let line = read_until(&mut stream, &mut buffer, b"\r\n")?;
                let size = usize::from_str_radix(&String::from_utf8_lossy(&line), 16).unwrap();
                if size == 0 {
                    break;
                }
                while buffer.len() < size + 2 {
                    let mut piece = [0; 4096];
                    let count = stream.read(&mut piece)?;
                    buffer.extend_from_slice(&piece[..count]);
                }
                let rest = buffer.split_off(size + 2);
                data.extend_from_slice(&std::mem::replace(&mut buffer, rest)[..size]);
            }
            read_until(&mut stream, &mut buffer, b"\r\n")?;
            data
        } else {
            Vec::new()
        };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        // As a body the head as it was received, in a fixed order: both proxies may have another one.
        let mut lines: Vec<&str> = head.lines().skip(1).collect();
        lines.sort_unstable();
        let shown = format!(
            "{}\n{}\n\n{}",
            head.lines().next().unwrap_or_default(),
            lines.join("\n"),
            String::from_utf8_lossy(&body)
        );
        let shown = super::pair::masked(&shown);
        tell(&shown);
        let fixed: Option<(&str, bool)> = match path.trim_start_matches("/ok") {
            "/close" => Some(("", true)),
            "/garbage" => Some(("garbage\r\n\r\n", true)),
            "/ambiguous" => Some((
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
                true,
            )),
            "/204" => Some(("HTTP/1.1 204 No Content\r\n\r\n", false)),
            "/eof" => Some(("HTTP/1.1 200 OK\r\n\r\nabc", true)),
            "/early" => Some(("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", true)),
            "/chunked" => Some((
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n",
                false,
            )),
            "/hint" => Some((
                "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
                false,
            )),
            _ => None,
        };
        if let Some(name) = path.strip_prefix("/twice/") {
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{name}: a\r\nx-between: 1\r\n{name}: b\r\n\r\n"
            );
            stream.write_all(text.as_bytes())?;
            continue;
        }
        if let Some((text, closes)) = fixed {
            stream.write_all(text.as_bytes())?;
            if closes {
                return Ok(());
            }
            continue;
        }
        if path == "/slow" {
            std::thread::sleep(Duration::from_secs(3));
        }
        let status = if path.starts_with("/status/503") { "503 Busy" } else { "200 Fine" };
        let text = if head.starts_with("HEAD") { "" } else { &shown };
        let length = shown.len();
        // At once: parts of it would wait for each other.
        let answer = format!(
            "HTTP/1.1 {status}\r\nServer: backend\r\nX-Up: 1\r\nX-Gone: 1\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nContent-Length: {length}\r\n\r\n{text}"
        );
        stream.write_all(answer.as_bytes())?;
    }
}
