//! Calls that wait for a place.

use tokio::task::LocalSet;
use tokio::time::Instant;

use super::super::link::SILENCE;
use super::super::status::{NOT_SENT, is_without_memory};
use super::*;
use crate::bootstrap;
use crate::cluster::{Cluster, Health};
use crate::stats::Stats;

/// A cluster that has room for one call, with hosts at these ports.
fn cluster(ports: &[u16]) -> Arc<Cluster> {
    cluster_with("", ports)
}

/// As [`cluster`], with further fields.
fn cluster_with(fields: &str, ports: &[u16]) -> Arc<Cluster> {
    let host = |port| {
        format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}")
    };
    let hosts: Vec<String> = ports.iter().map(host).collect();
    let text = format!(
        "static_resources: {{clusters: [{{name: c, {fields}common_lb_config: {{healthy_panic_threshold: {{value: 0}}}}, circuit_breakers: {{thresholds: [{{max_requests: 1}}]}}, load_assignment: {{cluster_name: c, endpoints: [{{lb_endpoints: [{}]}}]}}}}]}}",
        hosts.join(", ")
    );
    let (bootstrap, _) = bootstrap::read(&text, "b.yaml").unwrap();
    Cluster::new(bootstrap.clusters[0].clone(), &Stats::default())
}

fn method(timeout: Option<Duration>) -> Method<'static> {
    Method { path: "/a.B/C", authority: "c", timeout, header: None, once: false }
}

/// Calls the cluster; returns how it ends, and after which time.
async fn call(pools: &Pools, timeout: Option<Duration>) -> (Status, Duration) {
    let begun = Instant::now();
    let outcome =
        Channel::new(Some(0)).call(pools, &method(timeout), Bytes::from_static(&[0; 5]).into()).await;
    (outcome.unwrap_err(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_place_at_most_its_time_limit() {
    let cluster = cluster(&[1]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let taken = cluster.admit(Kind::Request).unwrap();
    for (timeout, waits) in [
        (Some(Duration::from_millis(40)), Duration::from_millis(40)),
        (Some(Duration::from_secs(7)), PLACE_TIMEOUT),
        (None, PLACE_TIMEOUT),
    ] {
        let (status, elapsed) = call(&pools, timeout).await;
        assert_eq!(status.message(), OVERFLOW, "{timeout:?}");
        assert!((waits..waits + PLACE_INTERVAL * 2).contains(&elapsed), "{timeout:?}: {elapsed:?}");
    }
    assert_eq!(cluster.stats.block.get(ClusterStat::UpstreamRqActiveOverflow), 3);
    assert_eq!(cluster.hosts()[0].requests.load(Ordering::Relaxed), 0, "no host was asked");
    drop(taken);
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_part_of_the_time_limit() {
    // Connections are taken, and nothing is answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = cluster(&[silent.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let taken = cluster.admit(Kind::Request).unwrap();
    let local = LocalSet::new();
    let limit = Duration::from_millis(500);
    let asked = local.run_until(async {
        let freeing = async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(taken);
        };
        tokio::join!(call(&pools, Some(limit)), freeing).0
    });
    let (status, elapsed) = asked.await;
    assert_eq!(status.message(), TIMED_OUT);
    assert!((limit..limit + PLACE_INTERVAL * 2).contains(&elapsed), "{elapsed:?}");
    assert_eq!(cluster.hosts()[0].requests.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_host_of_a_call_is_chosen_after_its_wait() {
    let cluster = cluster(&[1, 2]);
    let hosts = cluster.hosts();
    cluster.set_health(&hosts[1], Health::FailedActive, true);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let taken = cluster.admit(Kind::Request).unwrap();
    let local = LocalSet::new();
    let asked = local.run_until(async {
        let changing = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cluster.set_health(&hosts[0], Health::FailedActive, true);
            cluster.set_health(&hosts[1], Health::FailedActive, false);
            drop(taken);
        };
        tokio::join!(call(&pools, None), changing).0
    });
    let (status, elapsed) = asked.await;
    assert!(status.message().starts_with(NOT_SENT), "nobody listens there: {status:?}");
    assert!(elapsed >= Duration::from_millis(300), "{elapsed:?}");
    let asked = hosts.iter().map(|host| host.connections.load(Ordering::Relaxed)).collect::<Vec<_>>();
    assert_eq!(asked, [0, 1], "the one that is healthy by then");
}

/// A server that answers each call of gRPC after so long; `counts`: the calls that it has answered, and those that were reset before.
async fn serve(listener: tokio::net::TcpListener, takes: Duration, counts: Rc<[Cell<u32>; 2]>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let counts = Rc::clone(&counts);
        tokio::task::spawn_local(async move {
            tokio::select! {
                _ = std::future::poll_fn(|cx| respond.poll_reset(cx)) => counts[1].set(counts[1].get() + 1),
                () = tokio::time::sleep(takes) => {
                    let mut head = http::Response::new(());
                    head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                    let mut body = respond.send_response(head, false).unwrap();
                    body.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
                    let status = [(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))];
                    body.send_trailers(status.into_iter().collect()).unwrap();
                    counts[0].set(counts[0].get() + 1);
                }
            }
        });
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_not_reset_and_holds_its_place() {
    // Whatever its length.
    for length in [5, 1 << 20] {
        a_call_is_left(length).await;
    }
}

async fn a_call_is_left(length: usize) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let (takes, counts) = (Duration::from_millis(400), Rc::<[Cell<u32>; 2]>::default());
    let local = LocalSet::new();
    drop(local.spawn_local(serve(listener, takes, Rc::clone(&counts))));
    let told = Rc::clone(&counts);
    let asked = local.run_until(async move {
        let (channel, method) = (Channel::new(Some(0)), method(Some(Duration::from_secs(5))));
        let message = || Framed::from(Bytes::from(vec![0; length]));
        let left = tokio::time::timeout(takes / 2, channel.call(&pools, &method, message())).await;
        assert!(left.is_err(), "its caller is gone");
        // The only place is that of the call that goes on.
        let begun = Instant::now();
        channel.call(&pools, &method, message()).await.unwrap();
        assert!(begun.elapsed() > takes, "{:?}", begun.elapsed());
        told.each_ref().map(Cell::get)
    });
    assert_eq!(asked.await, [2, 0], "answered, reset");
    assert_eq!(cluster.stats.block.get(ClusterStat::UpstreamRqTxReset), 0);
    // Beyond its time limit, it is.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = self::cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let (local, told) = (LocalSet::new(), Rc::clone(&counts));
    drop(local.spawn_local(serve(listener, Duration::from_secs(60), Rc::clone(&counts))));
    let asked = local.run_until(async move {
        let channel = Channel::new(Some(0));
        let limit = method(Some(Duration::from_millis(100)));
        let outcome = channel.call(&pools, &limit, Bytes::from(vec![0; length]).into()).await;
        let begun = Instant::now();
        while told[1].get() == 0 && begun.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (outcome.unwrap_err().message().to_owned(), told[1].get())
    });
    assert_eq!(asked.await, (TIMED_OUT.to_owned(), 1));
    assert_eq!(cluster.stats.block.get(ClusterStat::UpstreamRqTxReset), 1);
}

#[tokio::test]
async fn no_call_begins_beyond_the_messages_that_nobody_waits_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let (channel, method) = (Channel::new(Some(0)), method(None));
    let pool = pools.get(0).unwrap();
    let left = Left::new(Rc::clone(&pool.left), MAX_LEFT);
    let status = channel.call(&pools, &method, Bytes::from_static(&[0; 5]).into()).await.unwrap_err();
    assert!(is_overflow(&status) && is_without_memory(&status), "{status:?}");
    drop(left);
    assert_eq!(pool.left.get(), 0);
    // A call whose caller leaves counts until it ends.
    let (takes, counts) = (Duration::from_millis(300), Rc::<[Cell<u32>; 2]>::default());
    let local = LocalSet::new();
    drop(local.spawn_local(serve(listener, takes, Rc::clone(&counts))));
    let counted = local.run_until(async move {
        let message = Framed::from(Bytes::from(vec![0; 1000]));
        let left = tokio::time::timeout(takes / 2, channel.call(&pools, &method, message)).await;
        assert!(left.is_err(), "its caller is gone");
        tokio::task::yield_now().await;
        let left = Rc::clone(&pools.get(0).unwrap().left);
        let counted = left.get();
        while counts[0].get() == 0 || left.get() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        counted
    });
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), counted).await, Ok(1000));
}

#[tokio::test]
async fn without_memory_for_a_call_filters_refuse_and_other_clusters_are_called() {
    use crate::bootstrap::{ExtAuthzConfig, GrpcServiceConfig, RateLimitConfig};
    use crate::connection_info::ConnectionInfo;
    use crate::ext_authz::{Authorizer, Check, Facts, Verdict};
    use crate::grpc::Channels;
    use crate::rate_limit::{Limited, Limiter};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clusters = [cluster(&[1]), cluster(&[listener.local_addr().unwrap().port()])];
    let pools = Rc::new(Pools::new(&clusters));
    let left = Left::new(Rc::clone(&pools.get(0).unwrap().left), MAX_LEFT);
    let (channels, stats) = (Channels::new(Rc::clone(&pools)), Stats::default());
    let (cluster, authority) = ("c".to_owned(), "c".to_owned());
    let service = GrpcServiceConfig { cluster, authority, timeout: None };
    let timeout = Some(Duration::from_secs(20));
    let authorizer = ExtAuthzConfig {
        service: service.clone(),
        timeout,
        failure_mode_allow: true,
        failure_mode_allow_header: false,
        status_on_error: 403,
        body: None,
        clear_route_cache: false,
        include_tls_session: false,
        charges_cluster: false,
        stat_prefix: String::new(),
    };
    let limiter = RateLimitConfig {
        service,
        timeout,
        domain: "d".to_owned(),
        stage: 0,
        failure_mode_deny: false,
        status_on_error: 500,
        limited_status: 429,
        resource_exhausted: false,
        tells_limits: false,
        tells_limited: false,
    };
    let authorizer = Authorizer::new(&authorizer, "http.in", &clusters, &stats);
    let limiter = Limiter::new(&limiter, &clusters, &stats);
    let mut head = crate::head::Head::default();
    head.read_request(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n", 10).unwrap();
    let connection = ConnectionInfo::new(([10, 1, 2, 3], 5000).into(), ([192, 0, 2, 1], 443).into());
    let check = || {
        let (start, protocol) = (std::time::SystemTime::UNIX_EPOCH, "HTTP/1.1");
        let facts = Facts { head: &head, connection: &connection, start, protocol, body: None };
        Check::new(facts, std::collections::BTreeMap::new(), false)
    };
    let local = LocalSet::new();
    drop(local.spawn_local(async move { answer_all(listener.accept().await.unwrap().0).await }));
    let asked = local.run_until(async {
        let verdict = authorizer.settle(authorizer.check(&channels, check()).await, None);
        assert!(matches!(verdict, Verdict::NoMemory), "{verdict:?}");
        let limited = limiter.settle(limiter.ask(&channels, None, Vec::new()).await, 0);
        assert!(matches!(limited, Limited::NoMemory), "{limited:?}");
        let message = Framed::from(Bytes::from_static(&[0; 5]));
        channels.call(Some(1), &method(timeout), message).await.unwrap();
        // Nobody listens there: that is as configured.
        drop(left);
        let verdict = authorizer.settle(authorizer.check(&channels, check()).await, None);
        assert!(matches!(verdict, Verdict::Pass { .. }), "{verdict:?}");
        let limited = limiter.settle(limiter.ask(&channels, None, Vec::new()).await, 0);
        assert!(matches!(limited, Limited::Failed(None)), "{limited:?}");
    });
    tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
}

/// Answers a call of gRPC.
fn answer(mut respond: h2::server::SendResponse<Bytes>) {
    let mut head = http::Response::new(());
    head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let mut body = respond.send_response(head, false).unwrap();
    body.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
    let status = [(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))];
    body.send_trailers(status.into_iter().collect()).unwrap();
}

/// Answers the calls of a connection.
async fn answer_all(stream: tokio::net::TcpStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, respond))) = connection.accept().await {
        answer(respond);
    }
}

/// Waits until a connection has brought the head of its first call.
async fn first_head(stream: &mut tokio::net::TcpStream) {
    use tokio::io::AsyncReadExt as _;
    let mut received = Vec::new();
    while !received.windows(5).any(|frame| frame == [1, 4, 0, 0, 0]) {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "{received:?}");
        received.extend_from_slice(&piece[..count]);
    }
}

#[tokio::test]
async fn a_call_that_a_graceful_end_leaves_out_lets_nothing_pass() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    // Of so many connections one after the other; the next one serves.
    for (ends, is_answered) in [(1_u32, true), (4, true), (u32::MAX, false)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster(&[listener.local_addr().unwrap().port()]);
        let pools = Pools::new(&[Arc::clone(&cluster)]);
        let local = LocalSet::new();
        drop(local.spawn_local(async move {
            for _ in 0..ends {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
                first_head(&mut stream).await;
                // GOAWAY without an error, before the first stream.
                stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
            answer_all(listener.accept().await.unwrap().0).await;
        }));
        let asked = local.run_until(async move {
            let message = Bytes::from_static(&[0; 5]).into();
            Channel::new(Some(0)).call(&pools, &method(Some(Duration::from_secs(30))), message).await
        });
        match tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap() {
            Ok(_) => assert!(is_answered),
            Err(status) => {
                assert!(!is_answered && is_overflow(&status) && !is_unanswered(&status), "{status:?}")
            }
        }
        assert_eq!(cluster.hosts()[0].failed.load(Ordering::Relaxed), 0, "the host is not to blame");
    }
}

#[tokio::test]
async fn a_call_that_was_not_taken_in_its_time_is_no_timeout_of_the_host() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let local = LocalSet::new();
    drop(local.spawn_local(refuse(listener, Rc::new(Cell::new(u32::MAX)))));
    let asked = local.run_until(async move {
        // Once the connection is there.
        let channel = Channel::new(Some(0));
        let message = || Framed::from(Bytes::from_static(&[0; 5]));
        drop(channel.call(&pools, &method(None), message()).await);
        let begun = Instant::now();
        let outcome = channel.call(&pools, &method(Some(Duration::from_millis(150))), message()).await;
        (outcome.unwrap_err(), begun.elapsed())
    });
    let (status, elapsed) = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
    assert!(is_overflow(&status) && elapsed < PLACE_TIMEOUT, "{status:?} after {elapsed:?}");
    let host = &cluster.hosts()[0];
    let counts = [&host.timed_out, &host.failed].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((counts, cluster.stats.block.get(ClusterStat::UpstreamRqTimeout)), ([0, 0], 0));
}

#[tokio::test]
async fn a_call_that_was_refused_and_sent_again_is_no_timeout_of_the_host() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let local = LocalSet::new();
    drop(local.spawn_local(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        connection.accept().await.unwrap().unwrap().1.send_reset(Reason::REFUSED_STREAM);
        // What becomes of it is not known in its time.
        let second = connection.accept().await;
        assert!(connection.accept().await.is_none());
        drop(second);
    }));
    let asked = local.run_until(call(&pools, Some(Duration::from_millis(300))));
    let (status, _) = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
    assert!(is_overflow(&status), "{status:?}");
    let host = &cluster.hosts()[0];
    let counts = [&host.timed_out, &host.failed].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((counts, cluster.stats.block.get(ClusterStat::UpstreamRqTimeout)), ([0, 0], 0));
}

#[tokio::test]
async fn a_call_for_which_there_is_no_connection_in_time_is_no_timeout_of_the_host() {
    // Nothing is accepted, and the queue is full.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap();
    let waiting: Vec<socket2::Socket> = (0..3)
        .map(|_| {
            let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            client.set_nonblocking(true).unwrap();
            let _ = client.connect(&address);
            client
        })
        .collect();
    let cluster = cluster(&[address.as_socket().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let local = LocalSet::new();
    let asked = local.run_until(call(&pools, Some(Duration::from_millis(300))));
    let (status, _) = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
    assert!(status.message() == TIMED_OUT && is_unanswered(&status), "{status:?}");
    let host = &cluster.hosts()[0];
    let counts = [&host.timed_out, &host.failed, &host.requests].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [0, 0, 0]);
    // As with Envoy.
    let stats = [
        ClusterStat::UpstreamRqTimeout,
        ClusterStat::UpstreamRqPendingTotal,
        ClusterStat::UpstreamRqCancelled,
        ClusterStat::UpstreamRqTotal,
        ClusterStat::UpstreamRqPendingActive,
    ];
    assert_eq!(stats.map(|stat| cluster.stats.block.get(stat)), [1, 1, 1, 0, 0]);
    drop((waiting, socket));
}

#[tokio::test]
async fn a_call_over_tls_offers_http2() {
    mixer_net::tls::install_crypto_provider();
    let issued = rcgen::generate_simple_self_signed(["host.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![issued.cert.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = "transport_socket: {name: tls, typed_config: {'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext}}, ";
    let cluster = cluster_with(tls, &[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let local = LocalSet::new();
    drop(local.spawn_local(async move {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        // As servers of gRPC do, which insist.
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, respond))) = connection.accept().await {
            answer(respond);
        }
    }));
    let asked = local.run_until(async {
        Channel::new(Some(0)).call(&pools, &method(None), Bytes::from_static(&[0; 5]).into()).await
    });
    let answered = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
    assert!(answered.is_ok(), "{answered:?}");
    let stats = [ClusterStat::UpstreamCxHttp2Total, ClusterStat::UpstreamCxHttp2Active];
    assert_eq!(stats.map(|stat| cluster.stats.block.get(stat)), [1, 1]);
}

#[tokio::test]
async fn a_call_on_a_connection_that_was_dead_is_repeated_once() {
    for (deaths, is_answered) in [(1, true), (2, false)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster(&[listener.local_addr().unwrap().port()]);
        let pools = Pools::new(&[Arc::clone(&cluster)]);
        let local = LocalSet::new();
        drop(local.spawn_local(async move {
            // The first connection answers one call, and is reset by the next one.
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_zero_linger().unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            answer(connection.accept().await.unwrap().unwrap().1);
            let called = connection.accept().await;
            drop((called, connection));
            for _ in 1..deaths {
                // Nothing comes on it at all.
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.set_zero_linger().unwrap();
                first_head(&mut stream).await;
            }
            answer_all(listener.accept().await.unwrap().0).await;
        }));
        let asked = local.run_until(async move {
            let channel = Channel::new(Some(0));
            let message = || Framed::from(Bytes::from_static(&[0; 5]));
            channel.call(&pools, &method(None), message()).await.unwrap();
            // What follows the answer has come as well.
            tokio::time::sleep(Duration::from_millis(50)).await;
            channel.call(&pools, &method(None), message()).await
        });
        let outcome = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
        match outcome {
            Ok(_) => assert!(is_answered),
            Err(status) => assert!(!is_answered && is_unanswered(&status), "{status:?}"),
        }
    }
}

#[tokio::test]
async fn a_connection_without_a_sign_of_its_host_is_tried_before_a_call() {
    // Beside a call that has no end, too.
    for beside in [false, true] {
        tokio::time::timeout(Duration::from_secs(60), try_a_silent_connection(beside)).await.unwrap();
    }
}

async fn try_a_silent_connection(beside: bool) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let local = LocalSet::new();
    drop(local.spawn_local(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let endless = if beside { connection.accept().await } else { None };
        answer(connection.accept().await.unwrap().unwrap().1);
        // Until the answer is sent; afterwards nobody is there.
        let _ = tokio::time::timeout(Duration::from_millis(200), connection.accept()).await;
        answer_all(listener.accept().await.unwrap().0).await;
        drop((connection, endless));
    }));
    let asked = local.run_until(async move {
        let channel = Channel::new(Some(0));
        let message = || Framed::from(Bytes::from_static(&[0; 5]));
        let _endless = match beside {
            true => Some(channel.open(&pools, &method(None)).await.unwrap()),
            false => None,
        };
        channel.call(&pools, &method(None), message()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::time::pause();
        tokio::time::advance(SILENCE).await;
        tokio::time::resume();
        channel.call(&pools, &method(Some(Duration::from_secs(20))), message()).await
    });
    assert!(asked.await.is_ok(), "{beside}");
}

#[tokio::test]
async fn a_call_on_a_connection_that_its_host_leaves_has_its_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&[listener.local_addr().unwrap().port()]);
    let pools = Pools::new(&[Arc::clone(&cluster)]);
    let local = LocalSet::new();
    drop(local.spawn_local(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, respond) = connection.accept().await.unwrap().unwrap();
        connection.graceful_shutdown();
        let late = async {
            tokio::time::sleep(LEFT + Duration::from_millis(500)).await;
            answer(respond);
        };
        let served = async { while connection.accept().await.is_some() {} };
        let next = async { answer_all(listener.accept().await.unwrap().0).await };
        tokio::join!(late, served, next);
    }));
    let asked = local.run_until(async {
        let channel = Channel::new(Some(0));
        let message = Framed::from(Bytes::from_static(&[0; 5]));
        let beside = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            channel.open(&pools, &method(None)).await
        };
        let limits = method(Some(Duration::from_secs(20)));
        tokio::join!(channel.call(&pools, &limits, message), beside)
    });
    let (answered, beside) = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
    assert!(answered.is_ok() && beside.is_ok(), "{answered:?} {beside:?}");
    assert_eq!(cluster.stats.block.get(ClusterStat::UpstreamCxTotal), 2);
    assert_eq!(cluster.stats.block.get(ClusterStat::UpstreamRqTotal), 2, "neither is sent again");
}

/// A server that refuses so many streams of each connection, and answers what follows.
async fn refuse(listener: tokio::net::TcpListener, left: Rc<Cell<u32>>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        if left.get() > 0 {
            left.set(left.get() - 1);
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        let mut head = http::Response::new(());
        head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let mut body = respond.send_response(head, false).unwrap();
        body.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
        let status = [(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))];
        body.send_trailers(status.into_iter().collect()).unwrap();
    }
}

#[tokio::test]
async fn a_call_that_the_server_has_no_place_for_waits_and_lets_nothing_pass() {
    for (refused, is_answered) in [(5, true), (u32::MAX, false)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster(&[listener.local_addr().unwrap().port()]);
        let pools = Pools::new(&[Arc::clone(&cluster)]);
        let local = LocalSet::new();
        let left = Rc::new(Cell::new(refused));
        drop(local.spawn_local(refuse(listener, Rc::clone(&left))));
        let asked = local.run_until(async move {
            let message = Bytes::from_static(&[0; 5]).into();
            Channel::new(Some(0)).call(&pools, &method(None), message).await
        });
        let outcome = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
        match outcome {
            Ok(_) => assert!(is_answered),
            Err(status) => assert!(!is_answered && is_overflow(&status), "{status:?}"),
        }
        // Nor is a host that takes nothing asked all the time.
        assert!(refused - left.get() <= 20, "{}", refused - left.get());
        // Nor is the host to blame.
        assert_eq!(cluster.hosts().len(), 1);
    }
}

#[tokio::test]
async fn a_limit_in_front_of_a_server_lets_nothing_pass() {
    for (answer, opens) in [(429_u16, false), (503, true), (500, false)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster(&[listener.local_addr().unwrap().port()]);
        let pools = Pools::new(&[Arc::clone(&cluster)]);
        let local = LocalSet::new();
        drop(local.spawn_local(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut head = http::Response::new(());
                *head.status_mut() = http::StatusCode::from_u16(answer).unwrap();
                drop(respond.send_response(head, true));
            }
        }));
        let asked = local.run_until(async move {
            let message = Bytes::from_static(&[0; 5]).into();
            Channel::new(Some(0)).call(&pools, &method(None), message).await
        });
        let status = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap().unwrap_err();
        assert_eq!(is_unanswered(&status), opens, "{answer}: {status:?}");
    }
}

/// A server that ends the connection with GOAWAY once a call has begun, of which that says it was seen. `resets`: with a reset of TCP some time
/// later.
async fn go_away(listener: tokio::net::TcpListener, code: u8, resets: bool) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    first_head(&mut stream).await;
    stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, code]).await.unwrap();
    if resets {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        stream.set_zero_linger().unwrap();
        return;
    }
    stream.shutdown().await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn a_connection_that_the_server_ends_with_an_error_lets_nothing_pass() {
    for (code, resets) in [(0, false), (1, false), (2, false), (3, false), (11, false), (0, true), (11, true)]
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cluster = cluster(&[listener.local_addr().unwrap().port()]);
        let pools = Pools::new(&[Arc::clone(&cluster)]);
        let local = LocalSet::new();
        drop(local.spawn_local(go_away(listener, code, resets)));
        let asked = local.run_until(async move {
            let message = Bytes::from_static(&[0; 5]).into();
            Channel::new(Some(0)).call(&pools, &method(None), message).await
        });
        let status = tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap().unwrap_err();
        assert_eq!(is_unanswered(&status), code == 0, "{code} {resets}: {status:?}");
    }
}
