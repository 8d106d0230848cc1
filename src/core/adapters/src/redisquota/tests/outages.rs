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

/// A Redis that refuses to write is no outage that ends by itself, and callers may have filled it: no limit is taken away.
#[tokio::test]
async fn a_redis_that_answers_with_errors_is_told_and_grants_nothing_by_itself() {
    for outage_mode in
        [OutageMode::Fail, OutageMode::FailOpen, OutageMode::FailClosed, OutageMode::LocalShare]
    {
        let server = RedisServer::start(&[]).await;
        let params = Params { outage_mode, local_share_percent: 50, ..params(&server.address()) };
        let (handler, env) = handler(params).await;
        assert_eq!(granted(&*handler, "aq", 1).await, 1);
        let _: String = server.ask("CONFIG SET maxmemory 1").await;
        for call in 0..10 {
            let answer = allocate(&*handler, "none", &format!("{call}"), 1, true).await;
            let granted = match outage_mode {
                OutageMode::Fail | OutageMode::FailOpen => {
                    assert!(answer.unwrap_err().message.contains("OOM"), "{outage_mode:?}");
                    continue;
                }
                OutageMode::FailClosed => 0,
                OutageMode::LocalShare => i64::from(call < 2),
            };
            assert_eq!(answer.unwrap().granted, granted, "{outage_mode:?}: call {call}");
        }
        let why = handler.degradation().unwrap();
        let start = format!("{}: Redis answers with an error: ", server.address());
        assert!(why.starts_with(&start) && why.contains("OOM"), "{why}");
        let status = handler.status();
        assert_eq!(status.trouble.as_ref(), Some(&why));
        let outage = status.quotas[0].shared.as_ref().unwrap().outage.as_ref();
        assert_eq!(outage.map(|outage| &outage.why), Some(&why));
        let mut metrics = Vec::new();
        env.metrics.write(&mut metrics);
        let metrics = String::from_utf8(metrics).unwrap();
        let count = if outage_mode == OutageMode::FailOpen { 10 } else { 0 };
        let is_out = |line: &str| line.starts_with("mixer_redisquota_outage{") && line.ends_with("} 1");
        assert!(metrics.lines().any(is_out), "{metrics}");
        let failed =
            format!("mixer_redisquota_calls_total{{answer=\"failed\",handler=\"h.istio-system\"}} {count}\n");
        assert!(outage_mode == OutageMode::Fail || metrics.contains(&failed), "{metrics}");
        let _: String = server.ask("CONFIG SET maxmemory 0").await;
        assert_eq!(granted(&*handler, "bq", 1).await, 1, "{outage_mode:?}");
        assert_eq!((handler.degradation(), handler.status().trouble), (None, None));
        env.tasks.shut_down().await;
    }
}

/// A Redis that cannot serve now, and will by itself, is as one that is away.
#[tokio::test]
async fn a_redis_that_is_busy_is_an_outage() {
    let server = RedisServer::start(&[]).await;
    let params = Params { outage_mode: OutageMode::FailOpen, ..params(&server.address()) };
    let (handler, env) = handler(params).await;
    assert_eq!(granted(&*handler, "aq", 1).await, 1);
    let _: String = server.ask("CONFIG SET lua-time-limit 1").await;
    let script = async { server.try_ask::<()>("EVAL while(true)do\tend 0").await };
    let calls = async {
        until("it is busy", async || {
            handler.degradation().is_some_and(|why| why.contains("BUSY")) || {
                assert_eq!(granted(&*handler, "bq", 4).await, 4);
                false
            }
        })
        .await;
        assert_eq!(granted(&*handler, "cq", 100).await, 100);
        let _: String = server.ask("SCRIPT KILL").await;
    };
    let _ = tokio::join!(script, calls);
    assert_eq!(granted(&*handler, "dq", 100).await, 0);
    assert_eq!(handler.degradation(), None);
    env.tasks.shut_down().await;
}

/// Whoever writes to the same Redis may write what was granted to an id.
#[tokio::test]
async fn no_answer_grants_more_than_the_limit_or_less_than_nothing() {
    let server = RedisServer::start(&[]).await;
    let (handler, env) = handler(params(&server.address())).await;
    assert_eq!(granted(&*handler, "unique", 3).await, 3);
    let keys: Vec<String> = server.ask("KEYS *unique*").await;
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    for (written, expected) in [("9007199254740992", 5), ("1000000", 5), ("4", 4), ("-5", 0)] {
        let _: i64 = server.ask(&format!("HSET {key} token {written}")).await;
        assert_eq!(granted(&*handler, "unique", 1).await, expected, "{written}");
    }
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

/// What is forgotten is granted again.
#[tokio::test]
async fn a_redis_that_evicts_keys_is_told() {
    let arguments = ["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"];
    let server = RedisServer::start(&arguments).await;
    let (handler, env) = handler(params(&server.address())).await;
    let tells = async || handler.degradation().is_some_and(|why| why.contains("it is volatile-lru"));
    until("the policy is told", tells).await;
    assert_eq!(granted(&*handler, "a", 1).await, 1, "Redis serves all the same");
    assert_eq!(handler.status().trouble, handler.degradation());
    server.ask::<()>("CONFIG SET maxmemory-policy noeviction").await;
    until("the cure is noticed", async || handler.degradation().is_none()).await;
    env.tasks.shut_down().await;
}
