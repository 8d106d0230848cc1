//! Redis that is away, hangs, or is no Redis: nothing is granted, and it is told.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::{RedisServer, until};
use super::*;

/// Whether a call fails, and the reason.
async fn failure(handler: &dyn Handler, id: &str) -> String {
    match allocate(handler, "none", id, 1, true).await {
        Err(error) => error.message,
        Ok(result) => panic!("granted {}", result.granted),
    }
}

fn impatient(address: &str) -> Params {
    Params { timeout: SignedDuration::from_nanos(200_000_000), ..params(address) }
}

#[tokio::test]
async fn without_redis_calls_fail_until_it_answers() {
    let mut server = RedisServer::start(&[]).await;
    server.kill();
    let (handler, env) = handler(params(&server.address())).await;
    let text = failure(&*handler, "aq").await;
    assert!(text.starts_with(&format!("Redis does not answer: {}: ", server.address())), "{text}");
    assert!(handler.degradation().is_some());
    assert_eq!(handler.status().trouble, handler.degradation());
    server.restart().await;
    until("a grant", async || {
        allocate(&*handler, "none", "bq", 1, false).await.is_ok_and(|r| r.granted == 1)
    })
    .await;
    assert_eq!(handler.degradation(), None);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_redis_that_restarts_is_found_again() {
    let mut server = RedisServer::start(&[]).await;
    let (handler, env) = handler(params(&server.address())).await;
    for round in 0..3 {
        assert_eq!(granted(&*handler, &format!("a{round}"), 3).await, 3);
        server.kill();
        failure(&*handler, &format!("b{round}")).await;
        server.restart().await;
        let id = format!("c{round}");
        until("a grant", async || {
            allocate(&*handler, "none", &id, 2, false).await.is_ok_and(|r| r.granted == 2)
        })
        .await;
        // A restart between two calls is not noticed.
        server.kill();
        server.restart().await;
        assert_eq!(granted(&*handler, &format!("d{round}"), 1).await, 1);
        server.kill();
        server.restart().await;
    }
    // Scripts are loaded again where they are missing.
    let _: String = server.ask("SCRIPT FLUSH").await;
    assert_eq!(granted(&*handler, "eq", 1).await, 1);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_redis_that_hangs_holds_no_call() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = handler(impatient(&server.address())).await;
    until("a grant", async || allocate(&*handler, "none", "aq", 1, true).await.is_ok()).await;
    server.signal("-STOP");
    assert_eq!(failure(&*handler, "bq").await, "Redis does not answer within 200ms");
    // Later calls fail at once: the connection is known to be lost.
    until("it is told", async || handler.degradation().is_some()).await;
    let text = failure(&*handler, "cq").await;
    assert!(text.contains("no answer within") || text.contains("timed out"), "{text}");
    server.signal("-CONT");
    until("a grant", async || allocate(&*handler, "none", "dq", 1, true).await.is_ok()).await;
    assert_eq!(handler.degradation(), None);
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn what_is_no_redis_grants_nothing() {
    let answers: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$-5\r\n",
        b"*1000000000\r\n",
        b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n:7\r\n",
        b"",
    ];
    for answer in answers {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    use tokio::io::{AsyncReadExt, AsyncWriteExt};
                    let mut bytes = [0; 1024];
                    while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                        if stream.write_all(answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let (handler, env) = handler(impatient(&address)).await;
        for call in 0..3 {
            failure(&*handler, &format!("{call}")).await;
        }
        env.tasks.shut_down().await;
        server.abort();
    }
}

/// A server that answers the first command with `first`, and then with `rest` for as long as it is read.
struct Endless {
    address: String,
    /// Bytes that were sent on the connection which took most.
    most: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Endless {
    async fn start(first: &'static [u8], rest: &'static [u8]) -> Self {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let most = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&most);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let most = Arc::clone(&counted);
                tokio::spawn(async move {
                    let mut sent = first.len();
                    if stream.read(&mut [0; 1024]).await.is_err() || stream.write_all(first).await.is_err() {
                        return;
                    }
                    let chunk = rest.repeat(65_536 / rest.len());
                    while stream.write_all(&chunk).await.is_ok() {
                        sent += chunk.len();
                        most.fetch_max(sent, Ordering::Relaxed);
                    }
                });
            }
        });
        Self { address, most, task }
    }
}

#[tokio::test]
async fn a_reply_without_an_end_takes_no_memory() {
    // Beside a reply of 1 MiB, what the system buffers of a connection in both directions.
    const MOST: usize = 24 << 20;
    let answers: [(&[u8], &[u8]); 4] = [
        (b"$1000000000\r\n", b"x"),
        (b"+", b"a"),
        (b"*1000000000\r\n", b"*100000\r\n"),
        (b"*1\r\n", b"*1\r\n"),
    ];
    for (first, rest) in answers {
        let of_master = |params: Params| Params { sentinel_master: "m".into(), ..params };
        let of_cluster = |params: Params| Params { cluster: true, ..params };
        let kinds: [&dyn Fn(Params) -> Params; 3] = [&|params| params, &of_master, &of_cluster];
        for kind in kinds {
            let server = Endless::start(first, rest).await;
            let (handler, env) = handler(kind(impatient(&server.address))).await;
            failure(&*handler, "aq").await;
            until("it is told", async || handler.degradation().is_some()).await;
            let text = handler.degradation().unwrap();
            assert!(text.contains(&server.address), "{text}");
            let most = server.most.load(Ordering::Relaxed);
            assert!(most < MOST, "{most} bytes were read of {}", first.escape_ascii());
            env.tasks.shut_down().await;
            server.task.abort();
        }
    }
}

#[tokio::test]
async fn a_listener_that_accepts_nothing_holds_no_build() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (handler, env) = handler(impatient(&listener.local_addr().unwrap().to_string())).await;
    failure(&*handler, "aq").await;
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_password_is_read_again_at_each_connection() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    let put = |text: &str| {
        let new = directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    put("wrong\n");
    let server = RedisServer::start(&["--requirepass", "right"]).await;
    let with = Params { password_file: file.display().to_string(), ..params(&server.address()) };
    let (handler, env) = handler(with).await;
    let text = failure(&*handler, "aq").await;
    assert!(text.contains("assword") && !text.contains("wrong"), "{text}");
    put("right\n");
    until("a grant", async || allocate(&*handler, "none", "bq", 1, false).await.is_ok()).await;
    env.tasks.shut_down().await;
    // In the address.
    let (handler, env) = super::handler(params(&format!("redis://:right@{}", server.address()))).await;
    assert_eq!(granted(&*handler, "cq", 1).await, 1);
    assert!(!format!("{:?}", handler.status()).contains("right"));
    env.tasks.shut_down().await;
    // A missing file.
    std::fs::remove_file(&file).unwrap();
    let with = Params { password_file: file.display().to_string(), ..params(&server.address()) };
    let (handler, env) = super::handler(with).await;
    let text = failure(&*handler, "dq").await;
    assert!(text.contains("could not read the password"), "{text}");
    env.tasks.shut_down().await;
}

#[tokio::test]
async fn a_server_without_tls_is_not_taken_for_one_with_it() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = handler(params(&format!("rediss://{}", server.address()))).await;
    // The task that connects goes on: there is a provider of cryptography.
    let text = failure(&*handler, "aq").await;
    assert!(text.starts_with("Redis does not answer: 127.0.0.1:"), "{text}");
    env.tasks.shut_down().await;
}
