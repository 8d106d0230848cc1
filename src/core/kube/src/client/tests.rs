//! Tests of requests, against a server in this process.

mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::*;

/// A server that answers every request, and its URL.
async fn serve<F, R>(answer: F) -> String
where
    F: Fn(Request) -> R + Clone + Send + Sync + 'static,
    R: IntoResponse + Send,
{
    let router = Router::new().fallback(move |request: Request| {
        let answer = answer.clone();
        async move { answer(request) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

/// What the server was asked: method, path, and two headers.
fn asked(request: &Request) -> Value {
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    json!([
        request.method().as_str(),
        request.uri().to_string(),
        header("authorization"),
        header("content-type")
    ])
}

#[tokio::test]
async fn requests_carry_the_credential_that_is_in_the_file_now() {
    let url = serve(|request| asked(&request).to_string()).await;
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first").unwrap();
    let path = directory.path().join("config");
    std::fs::write(&path, kubeconfig(&format!("{url}/prefix/"), "tokenFile: token")).unwrap();
    let client = Client::new(Access::of_file(&path)).unwrap();
    let get = async || client.get::<Value>("/api/v1/pods?limit=1", "application/json").await.unwrap();
    assert_eq!(get().await, json!(["GET", "/prefix/api/v1/pods?limit=1", "Bearer first", null]));
    std::fs::write(&token, "second, longer").unwrap();
    assert_eq!(get().await[2], "Bearer second, longer");
    std::fs::remove_file(&token).unwrap();
    assert_eq!(get().await[2], "Bearer second, longer", "the last one is used on");
    let body = Some(("application/merge-patch+json", Bytes::from_static(b"{}")));
    let sent: Value = client.send(Method::PATCH, "/x", body).await.unwrap();
    assert_eq!(sent, json!(["PATCH", "/prefix/x", "Bearer second, longer", "application/merge-patch+json"]));
}

/// On a runtime of one thread, which a file system that hangs would stop.
#[tokio::test]
async fn files_that_hang_stop_nobody_and_the_last_credential_is_used() {
    let url = serve(|request| asked(&request).to_string()).await;
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first").unwrap();
    let path = directory.path().join("config");
    std::fs::write(&path, kubeconfig(&url, "tokenFile: token")).unwrap();
    let client = Client::new(Access::of_file(&path)).unwrap();
    let get = async || client.get::<Value>("/x", "application/json").await.unwrap()[2].clone();
    let (wake, asleep) = std::sync::mpsc::channel::<()>();
    let (began, begun) = tokio::sync::oneshot::channel();
    let hangs = move |client: &Client| {
        began.send(()).unwrap();
        let _ = asleep.recv();
        client.look();
    };
    let looking = client.clone();
    let refreshed = tokio::spawn(async move { looking.refresh_by(hangs).await });
    // What else the thread does goes on: the answers of the server among it.
    begun.await.unwrap();
    std::fs::write(&token, "second, longer").unwrap();
    for _ in 0..10 {
        assert_eq!(get().await, "Bearer first");
    }
    let waited = tokio::time::timeout(LOOK_LIMIT * 60, refreshed).await;
    waited.expect("it is waited for at most a second").unwrap();
    wake.send(()).unwrap();
    while get().await == "Bearer first" {}
    assert_eq!(get().await, "Bearer second, longer");
    // A FIFO is no file: nobody waits for its writer.
    std::fs::remove_file(&token).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&token).status().unwrap();
    assert!(made.success());
    assert_eq!(get().await, "Bearer second, longer");
}

#[tokio::test]
async fn refusals_say_what_was_refused_and_hold_no_credential() {
    let url = serve(|request| {
        let status = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no\npods for Bearer hunter2hunter2"});
        match request.uri().path() {
            "/known" => (http::StatusCode::FORBIDDEN, [("retry-after", "7")], status.to_string()),
            "/page" => (http::StatusCode::BAD_GATEWAY, [("x", "y")], "<html>".to_owned()),
            "/redirect" => (http::StatusCode::FOUND, [("location", "http://elsewhere/")], String::new()),
            _ => (http::StatusCode::OK, [("x", "y")], "<html>".to_owned()),
        }
    })
    .await;
    let client = Client::new(Access::of_text(kubeconfig(&url, "token: hunter2hunter2"))).unwrap();
    let server = client.server();
    let failed = async |path: &str| client.get::<Value>(path, "application/json").await.unwrap_err();
    let known = failed("/known?q=1").await;
    assert_eq!(
        known.to_string(),
        format!("{server}: /known: HTTP status 403 (Forbidden): no pods for Bearer ***")
    );
    assert_eq!((known.after(), known.is_gone()), (Duration::from_secs(7), false));
    assert_eq!(failed("/page").await.to_string(), format!("{server}: /page: HTTP status 502"));
    assert_eq!(failed("/redirect").await.to_string(), format!("{server}: /redirect: HTTP status 302"));
    assert_eq!(failed("/other").await.to_string(), format!("{server}: /other: the answer is no JSON"));
    drop(client);
    let nobody = Client::new(Access::of_text(kubeconfig("http://127.0.0.1:1", ""))).unwrap();
    let text = nobody.get::<Value>("/", "application/json").await.unwrap_err().to_string();
    assert!(text.starts_with("127.0.0.1:1: ") && text.contains("refused"), "{text}");
}

/// Balancers end connections that were not used for a while, also while a request is on its way.
#[tokio::test]
async fn what_only_reads_is_asked_again_if_its_connection_ends() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // One request is answered, the next one ends the connection.
            for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", ""] {
                tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await.unwrap();
                tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await.unwrap();
            }
        }
    });
    let client = Client::new(Access::of_text(kubeconfig(&url, ""))).unwrap();
    for _ in 0..4 {
        assert_eq!(client.get::<Value>("/x", "application/json").await.unwrap(), json!({}));
    }
    let body = Some(("application/json", Bytes::from_static(b"{}")));
    let sent: Result<Value, _> = client.send(Method::POST, "/x", body).await;
    assert!(matches!(sent, Err(Error::Unreachable { .. })), "what writes is not: {sent:?}");
}

#[tokio::test]
async fn answers_are_bounded() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let url = serve(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        " ".repeat(MAX_ANSWER + 1)
    })
    .await;
    let client = Client::new(Access::of_text(kubeconfig(&url, ""))).unwrap();
    let error = client.get::<Value>("/big", "application/json").await.unwrap_err();
    assert_eq!(error.to_string(), format!("{}: /big: the answer has more than 32 MiB", client.server()));
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}
