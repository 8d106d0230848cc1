//! Requests of one connection, beside each other.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use crate::client::{Client, request, wait};
use crate::peers::{connect, read_exact, read_head, serve};
use crate::proxy::{ask_admin, wait_for};
use crate::scene::{Scene, mirror, read_body};

/// A gate that requests wait at until a test opens it.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let is_open = self.0.lock().unwrap();
        drop(self.1.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

fn answer(stream: &mut TcpStream, text: &str) {
    // The proxy may be gone.
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
}

/// A host that keeps `/hold` and reads nothing of `/stuck` until the gate is open.
fn holding(gate: &Arc<Gate>) -> u16 {
    let gate = Arc::clone(gate);
    serve(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if head.contains(" /hold") || head.contains(" /stuck") {
                gate.pass();
            }
            let body = read_body(&mut stream, &head);
            answer(&mut stream, &format!("{}", body.len()));
        }
    })
}

#[test]
fn requests_of_a_connection_do_not_block_each_other() {
    let gate = Arc::<Gate>::default();
    let scene = Scene::start(holding(&gate));
    let client = Client::connect(scene.auto);
    let held: Vec<_> = (0..20).map(|_| client.send(request("GET", "/hold"), true).unwrap()).collect();
    // Uploads that their host does not read, more than buffers hold.
    let stuck: Vec<_> = (0..3)
        .map(|_| {
            let mut call = client.send(request("POST", "/stuck"), false).unwrap();
            call.body.send_data(Bytes::from(vec![b'x'; 8 << 20]), true).unwrap();
            call
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(client.get("/a").text(), "0");
    }
    assert_eq!(client.ask(request("POST", "/b"), Some(&[b'y'; 100_000]), None).unwrap().text(), "100000");
    assert_eq!(scene.proxy.stat("http.in.downstream_rq_active"), 23);
    assert_eq!(scene.proxy.stat("http2.streams_active"), 23);
    gate.open();
    for call in held {
        assert_eq!(call.answer().unwrap().text(), "0");
    }
    for call in stuck {
        assert_eq!(call.answer().unwrap().text(), (8 << 20).to_string());
    }
    for (name, expected) in [
        ("http.in.downstream_cx_total", 1),
        ("http.in.downstream_cx_http2_total", 1),
        ("http.in.downstream_cx_http1_total", 0),
        ("http.in.downstream_rq_http2_total", 44),
        ("http.in.downstream_rq_2xx", 44),
    ] {
        assert_eq!(scene.proxy.stat(name), expected, "{name}");
    }
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn heads_and_bodies_are_translated() {
    let scene = Scene::start(mirror());
    let client = Client::connect(scene.auto);
    let mut get = request("GET", "/a?b=c");
    get.headers_mut().append("cookie", HeaderValue::from_static("a=1"));
    get.headers_mut().append("cookie", HeaderValue::from_static("b=2"));
    get.headers_mut().append("te", HeaderValue::from_static("trailers"));
    let shown = client.send(get, true).unwrap().answer().unwrap();
    let text = shown.text();
    assert!(text.starts_with("GET /a?b=c HTTP/1.1\r\nhost: h\r\n"), "{text}");
    assert!(text.contains("\r\ncookie: a=1; b=2\r\n") && text.contains("\r\nte: trailers\r\n"), "{text}");
    assert!(!text.contains("content-length") && !text.contains("transfer-encoding"), "{text}");
    assert_eq!(shown.headers["server"], "mixer");
    assert!(!shown.headers.contains_key("connection") && shown.headers.contains_key("date"));
    // A body without a length, and trailers, which HTTP/1.1 hosts do not get.
    let mut trailers = HeaderMap::new();
    trailers.insert("x-trailer", HeaderValue::from_static("t"));
    let text = client.ask(request("POST", "/b"), Some(b"hello"), Some(trailers)).unwrap().text();
    assert!(text.contains("\r\ntransfer-encoding: chunked\r\n") && text.ends_with("\r\n\r\nhello"), "{text}");
    assert!(!text.contains("x-trailer"), "{text}");
    let mut known = request("POST", "/c");
    known.headers_mut().insert("content-length", HeaderValue::from_static("5"));
    let text = client.ask(known, Some(b"hello"), None).unwrap().text();
    assert!(text.contains("\r\ncontent-length: 5\r\n") && !text.contains("transfer-encoding"), "{text}");
    // Large bodies in both directions.
    let body: Vec<u8> = (0..3 << 20).map(|index: u32| (index % 251) as u8).collect();
    let shown = client.ask(request("POST", "/d"), Some(&body), None).unwrap();
    assert!(shown.body.ends_with(&body), "{} bytes", shown.body.len());
    let head = client.send(request("HEAD", "/direct"), true).unwrap().answer().unwrap();
    assert_eq!(
        (head.status, head.body.len(), &head.headers["content-length"]),
        (200, 0, &HeaderValue::from_static("6"))
    );
    assert_eq!(client.get("/direct").text(), "direct");
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn a_reset_cancels_the_request_of_the_host_and_no_other() {
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
    let scene = Scene::start(serve(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if head.contains(" /never") {
                begins.fetch_add(1, Ordering::Relaxed);
                let _ = read_head(&mut stream);
                ends.fetch_add(1, Ordering::Relaxed);
                return;
            }
            answer(&mut stream, "fine");
        }
    }));
    let client = Client::connect(scene.auto);
    let mut never = client.send(request("GET", "/never"), true).unwrap();
    let mut upload = client.send(request("POST", "/never"), false).unwrap();
    wait_for("both are there", || (begun.load(Ordering::Relaxed) == 2).then_some(()));
    never.body.send_reset(h2::Reason::CANCEL);
    wait_for("the first is cancelled", || (ended.load(Ordering::Relaxed) == 1).then_some(()));
    assert_eq!(client.get("/a").text(), "fine");
    upload.body.send_reset(h2::Reason::CANCEL);
    wait_for("the second is cancelled", || (ended.load(Ordering::Relaxed) == 2).then_some(()));
    wait_for("they are counted", || (scene.proxy.stat("http2.rx_reset") == 2).then_some(()));
    assert_eq!(scene.proxy.stat("http.in.downstream_rq_rx_reset"), 2);
    assert_eq!(scene.proxy.stat("http.in.downstream_cx_destroy_active_rq"), 0);
    // The end of the connection cancels what is left.
    let last = client.send(request("GET", "/never"), true).unwrap();
    wait_for("it is there", || (begun.load(Ordering::Relaxed) == 3).then_some(()));
    drop((last, client, never, upload));
    wait_for("the third is cancelled", || (ended.load(Ordering::Relaxed) == 3).then_some(()));
    scene.wait_for_rest();
}

#[test]
fn a_host_that_ends_early_resets_the_stream() {
    let scene = Scene::start(serve(|mut stream, _| {
        if read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        }
    }));
    let client = Client::connect(scene.auto);
    let error = client.send(request("GET", "/a"), true).unwrap().answer().unwrap_err();
    assert_eq!((error.is_reset(), error.reason()), (true, Some(h2::Reason::INTERNAL_ERROR)), "{error}");
    assert_eq!(client.get("/direct").text(), "direct");
    assert_eq!(scene.proxy.stat("http2.tx_reset"), 1);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn an_answer_before_the_end_of_the_request_ends_the_stream() {
    let scene = Scene::start(serve(|mut stream, _| {
        if read_head(&mut stream).is_some() {
            answer(&mut stream, "early");
            // It reads no more.
            std::thread::sleep(Duration::from_secs(1));
        }
    }));
    let client = Client::connect(scene.auto);
    let mut call = client.send(request("POST", "/a"), false).unwrap();
    call.body.send_data(Bytes::from_static(b"abc"), false).unwrap();
    let mut body = call.body;
    let shown = wait(async {
        let response = call.response.await.unwrap();
        let reset = std::future::poll_fn(|cx| body.poll_reset(cx)).await;
        (response.status().as_u16(), reset.unwrap())
    });
    assert_eq!(shown, (200, h2::Reason::NO_ERROR));
    assert_eq!(client.get("/direct").text(), "direct");
    drop((client, body));
    scene.wait_for_rest();
}

#[test]
fn a_client_that_expects_100_gets_it_before_it_sends() {
    let scene = Scene::start(mirror());
    let client = Client::connect(scene.auto);
    let mut post = request("POST", "/a");
    post.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
    let mut call = client.send(post, false).unwrap();
    let hint = wait(std::future::poll_fn(|cx| call.response.poll_informational(cx)));
    assert_eq!(hint.unwrap().unwrap().status(), 100);
    call.body.send_data(Bytes::from_static(b"abc"), true).unwrap();
    let text = call.answer().unwrap().text();
    assert!(text.ends_with("abc") && !text.contains("expect"), "{text}");
    assert_eq!(scene.proxy.stat("http.in.downstream_rq_1xx"), 1);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn heads_are_bounded() {
    let scene = Scene::start(mirror());
    let client = Client::connect(scene.auto);
    let with = |count: usize, size: usize| {
        let mut get = request("GET", "/a");
        for _ in 0..count {
            get.headers_mut().append("x-field", HeaderValue::from_bytes(&vec![b'v'; size]).unwrap());
        }
        client.send(get, true).unwrap().answer().unwrap().status
    };
    assert_eq!([with(100, 1), with(1, 59 << 10)], [200, 200]);
    assert_eq!([with(101, 1), with(1, 61 << 10)], [431, 431]);
    drop(client);
    scene.wait_for_rest();
}

#[test]
fn a_connection_has_the_protocol_that_its_listener_says() {
    let scene = Scene::start(mirror());
    let ask_http1 = |port: u16| {
        let mut client = connect(port);
        client.write_all(b"GET /direct HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        read_head(&mut client).unwrap_or_default()
    };
    assert!(ask_http1(scene.auto).starts_with("HTTP/1.1 200"));
    assert!(ask_http1(scene.http1).starts_with("HTTP/1.1 200"));
    assert!(!ask_http1(scene.http2).contains("HTTP/1.1"));
    assert_eq!(Client::connect(scene.auto).get("/direct").text(), "direct");
    assert_eq!(Client::connect(scene.http2).get("/direct").text(), "direct");
    let mut preface = connect(scene.http1);
    preface.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let shown = read_head(&mut preface).unwrap();
    assert!(shown.starts_with("HTTP/1.1 400"), "{shown}");
    // The preface may come in parts, and so may what only begins like it.
    for text in ["PRI", "P", "PRI * HTTP/2.0\r\n\r\nSM"] {
        let mut client = connect(scene.auto);
        client.write_all(text.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        client.write_all(&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[text.len()..]).unwrap();
        assert_eq!(read_exact(&mut client, 9)[3], 4, "SETTINGS");
    }
    let mut client = connect(scene.auto);
    client.write_all(b"P").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    client.write_all(b"OST /direct HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_head(&mut client).unwrap().starts_with("HTTP/1.1 200"));
    drop((client, preface));
    scene.wait_for_rest();
    assert_eq!(scene.proxy.stat("http.in.downstream_cx_http1_total"), 4);
}

#[test]
fn a_connection_ends_in_order_when_the_process_drains() {
    let gate = Arc::<Gate>::default();
    let scene = Scene::start(holding(&gate));
    let (busy, idle) = (Client::connect(scene.auto), Client::connect(scene.auto));
    let held = busy.send(request("GET", "/hold"), true).unwrap();
    assert_eq!(idle.get("/direct").text(), "direct");
    wait_for("it is begun", || (scene.proxy.stat("cluster.host.upstream_rq_active") == 1).then_some(()));
    assert_eq!(ask_admin(scene.admin, "POST", "/healthcheck/fail").unwrap().0, 200);
    for client in [&busy, &idle] {
        wait_for("GOAWAY", || {
            let refused = client.send(request("GET", "/direct"), true).and_then(crate::client::Call::answer);
            refused.is_err().then_some(())
        });
    }
    gate.open();
    assert_eq!(held.answer().unwrap().text(), "0", "what was begun is answered");
    scene.wait_for_rest();
    assert_eq!(scene.proxy.stat("http.in.downstream_cx_drain_close"), 2);
}

#[test]
fn an_idle_connection_is_closed() {
    let scene = Scene::start(mirror());
    let client = Client::connect(scene.http2);
    assert_eq!(client.get("/direct").text(), "direct");
    wait_for("it is closed", || (scene.proxy.stat("http.in.downstream_cx_active") == 0).then_some(()));
    assert_eq!(scene.proxy.stat("http.in.downstream_cx_idle_timeout"), 1);
    let silent = connect(scene.http2);
    wait_for("one that says nothing, too", || {
        (scene.proxy.stat("http.in.downstream_cx_idle_timeout") == 2).then_some(())
    });
    drop((silent, client));
    scene.wait_for_rest();
}
