use super::*;
use crate::check_address;

#[test]
fn timeouts_have_eight_digits_at_most() {
    for (duration, text) in [
        (Duration::from_nanos(5), "5n"),
        (Duration::from_millis(99), "99000000n"),
        (Duration::from_millis(200), "200000u"),
        (Duration::from_secs(10), "10000000u"),
        (Duration::from_secs(3600), "3600000m"),
        (Duration::from_secs(1_000_000_000), "277777H"),
        (Duration::MAX, "99999999H"),
    ] {
        assert_eq!(timeout(duration), text, "{duration:?}");
    }
}

#[test]
fn answers_are_one_message() {
    let read = |answer: &'static [u8]| {
        message_of(&Bytes::from_static(answer)).map_err(|status| status.message().to_owned())
    };
    assert_eq!(read(b"\0\0\0\0\x02ab"), Ok(Bytes::from_static(b"ab")));
    assert_eq!(read(b"\0\0\0\0\0"), Ok(Bytes::new()));
    for (answer, why) in [
        (&b""[..], "the server sent no message"),
        (b"\0\0\0", "the server sent no message"),
        (b"\x01\0\0\0\0", "grpc: compressed flag set with identity or empty encoding"),
        (b"\0\0\0\0\x03ab", "unexpected EOF"),
        (b"\0\0\0\0\x01ab", "the server sent more than one message"),
    ] {
        assert_eq!(read(answer), Err(why.to_owned()), "{answer:?}");
    }
}

#[test]
fn pieces_are_joined_and_bounded() {
    let mut received = Received::default();
    for piece in ["", "ab", "", "c", "def"] {
        received.add(Bytes::from_static(piece.as_bytes()));
    }
    assert_eq!(received.so_far(), b"abcdef");
    assert_eq!(received.into_bytes(), "abcdef");
    assert!(too_long(b"\0\0\0\0\x03", 3).is_none());
    assert!(too_long(b"\0\0\0\0\x04", 3).is_some());
    assert!(too_long(b"\0\0\0\0\x01abcd", 3).is_some());
    assert!(too_long(b"\0\xff", 3).is_none());
}

#[test]
fn addresses_are_checked() {
    let address = |text: &str| {
        GrpcChannel::new(&ChannelOptions::new(text)).map(|_| ()).map_err(|error| error.to_string())
    };
    for good in [
        "localhost:1",
        ":1",
        "[::1]:2",
        "host",
        "dns:///host:1",
        "passthrough:///host:1",
        "unix:/run/a",
        "unix:///run/a",
    ] {
        assert_eq!(address(good), Ok(()), "{good}");
    }
    assert_eq!(address(""), Err("invalid address ``: it is empty".to_owned()));
    for bad in ["a b:1", "host:99999", "ho/st:1"] {
        assert!(address(bad).is_err(), "{bad}");
        assert_eq!(check_address(bad, false).map_err(|e| e.to_string()).map(|_| ()), address(bad), "{bad}");
    }
    let scheme = "invalid address `http://host:1`: an address is HOST:PORT, without a scheme";
    assert_eq!(address("http://host:1"), Err(scheme.to_owned()));
    assert!(!address("http://ann:hunter2@host/?sig=hunter2").unwrap_err().contains("hunter2"));
    for (text, has_tls, port) in [
        ("host:1", false, None),
        (":1", true, None),
        ("unix:/run/a", false, None),
        ("host", false, Some(80)),
        ("dns:///host", true, Some(443)),
    ] {
        assert_eq!(check_address(text, has_tls).ok(), Some(port), "{text}");
    }
}

/// A server that answers every call, and ends the connection after one of `/t/End`. Returns its address, and what is called on which connection.
async fn server() -> (String, tokio::sync::mpsc::UnboundedReceiver<(usize, String)>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (told, calls) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let told = told.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let path = request.uri().path().to_owned();
                    let ends = path == "/t/End";
                    let _ = told.send((number, path));
                    if ends {
                        return;
                    }
                    let head = http::Response::builder().header(CONTENT_TYPE, "application/grpc");
                    let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                    body.send_data(grpc_message(b"").unwrap(), false).unwrap();
                    let status = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), 0.into())]);
                    body.send_trailers(status).unwrap();
                }
            });
        }
    });
    (address, calls)
}

/// Whatever is at the other end of a new connection, nothing is asked of it before the setup.
#[tokio::test]
async fn every_connection_begins_with_the_setup() {
    let (address, mut calls) = server().await;
    let why = Arc::new(std::sync::Mutex::new(None::<String>));
    let fails = Arc::clone(&why);
    let path = PathAndQuery::from_static;
    let channel = GrpcChannel::new(&ChannelOptions::new(address)).unwrap().with_setup(move |connection| {
        let fails = Arc::clone(&fails);
        async move {
            let answer = connection.call(path("/t/Setup"), b"", None, None).await;
            assert!(connection.is_open());
            answer.map_err(|status| status.message().to_owned())?;
            fails.lock().unwrap().clone().map_or(Ok(()), Err)
        }
    });
    let call = |at| channel.call(path(at), b"", None, None);
    let both = tokio::join!(call("/t/One"), call("/t/One"));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    assert!(call("/t/End").await.is_err());
    assert!(call("/t/Two").await.is_ok());
    assert!(call("/t/End").await.is_err());
    *why.lock().unwrap() = Some("it refuses".to_owned());
    for _ in 0..2 {
        let refused = call("/t/Three").await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unavailable, "it refuses"));
    }
    *why.lock().unwrap() = None;
    assert!(call("/t/Four").await.is_ok());
    let mut found = Vec::new();
    while let Ok(call) = calls.try_recv() {
        found.push(call);
    }
    let expected = [
        (0, "Setup"),
        (0, "One"),
        (0, "One"),
        (0, "End"),
        (1, "Setup"),
        (1, "Two"),
        (1, "End"),
        (2, "Setup"),
        (3, "Setup"),
        (4, "Setup"),
        (4, "Four"),
    ];
    assert_eq!(found, expected.map(|(number, name)| (number, format!("/t/{name}"))));
}
