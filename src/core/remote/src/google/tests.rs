use super::*;
use crate::tests::TestServer;

/// A user of gcloud, whose requests need no signature.
fn user_file(directory: &Path) -> PathBuf {
    let file = directory.join("user.json");
    let text = r#"{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}"#;
    std::fs::write(&file, text).unwrap();
    file
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn none(_: &str) -> Option<String> {
    None
}

#[tokio::test]
async fn a_token_is_fetched_once_and_again_when_it_was_refused_or_ends() {
    let directory = tempfile::tempdir().unwrap();
    let answers = [
        json(r#"{"access_token": "one", "expires_in": 3600}"#),
        json(r#"{"access_token": "two", "expires_in": 0}"#),
        json(r#"{"access_token": "three"}"#),
    ];
    let mut server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let options = GoogleOptions {
        key_file: user_file(directory.path()),
        token_endpoint: format!("http://127.0.0.1:{}/token", server.port),
        ..GoogleOptions::default()
    };
    let tokens = GoogleTokens::with(options, &none).unwrap();
    for _ in 0..3 {
        assert_eq!(tokens.authorization().await.unwrap(), "Bearer one");
    }
    let one = tokens.authorization().await.unwrap();
    tokens.refused(&one);
    assert_eq!(tokens.authorization().await.unwrap(), "Bearer two");
    // Calls that had the first one are answered later.
    tokens.refused(&one);
    // It was over at once.
    let last = tokens.authorization().await.unwrap();
    assert_eq!(last, "Bearer three");
    assert!(last.is_sensitive());
    let request = server.received.recv().await.unwrap();
    assert!(request.starts_with("POST /token HTTP/1.1") && request.contains("refresh_token=r"), "{request}");
}

/// A service that accepts no token would have one fetched for every call.
#[tokio::test]
async fn a_service_that_accepts_no_token_costs_one_more_and_no_storm() {
    let directory = tempfile::tempdir().unwrap();
    let answers = ["one", "two", "three"]
        .map(|token| json(&format!(r#"{{"access_token": "{token}", "expires_in": 3600}}"#)));
    let server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let options = GoogleOptions {
        key_file: user_file(directory.path()),
        token_endpoint: format!("http://127.0.0.1:{}/", server.port),
        ..GoogleOptions::default()
    };
    let tokens = GoogleTokens::with(options, &none).unwrap();
    let one = tokens.authorization().await.unwrap();
    assert!(tokens.refused(&one), "there will be another one");
    for _ in 0..3 {
        let two = tokens.authorization().await.unwrap();
        assert_eq!(two, "Bearer two");
        assert!(!tokens.refused(&two), "it was fetched a moment ago");
    }
    assert!(tokens.refused(&one), "there is another one already");
}

#[tokio::test]
async fn a_token_that_is_valid_serves_while_the_next_cannot_be_fetched() {
    let directory = tempfile::tempdir().unwrap();
    let token = json(r#"{"access_token": "one", "expires_in": 2}"#);
    let server = TestServer::start(&[&token, ""], None).await;
    let options = GoogleOptions {
        key_file: user_file(directory.path()),
        token_endpoint: format!("http://127.0.0.1:{}/", server.port),
        ..GoogleOptions::default()
    };
    let tokens = GoogleTokens::with(options, &none).unwrap();
    assert_eq!(tokens.authorization().await.unwrap(), "Bearer one");
    // It is to be replaced by now.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..3 {
        assert_eq!(tokens.authorization().await.unwrap(), "Bearer one");
    }
}

#[tokio::test]
async fn a_failure_is_told_to_all_who_ask_soon_after() {
    let directory = tempfile::tempdir().unwrap();
    let body = r#"{"error": "invalid_grant", "error_description": "gone\nfor good"}"#;
    let refusal = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = TestServer::start(&[&refusal], None).await;
    let options = GoogleOptions {
        key_file: user_file(directory.path()),
        token_endpoint: format!("http://127.0.0.1:{}/", server.port),
        ..GoogleOptions::default()
    };
    let tokens = GoogleTokens::with(options, &none).unwrap();
    for _ in 0..2 {
        let why = tokens.authorization().await.unwrap_err();
        assert_eq!(why, "no access token: HTTP status 400 Bad Request (gone for good)");
    }
}

/// Each of many calls would wait for its own attempt otherwise, one after another.
#[tokio::test]
async fn calls_that_wait_for_an_attempt_share_its_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&attempts);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Longer than a failure is remembered.
            tokio::spawn(async move {
                tokio::time::sleep(crate::renewal::PAUSE + Duration::from_millis(300)).await;
                drop(stream);
            });
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let options = GoogleOptions {
        key_file: user_file(directory.path()),
        token_endpoint: format!("http://127.0.0.1:{port}/"),
        ..GoogleOptions::default()
    };
    let tokens = GoogleTokens::with(options, &none).unwrap();
    let (first, second, third) =
        tokio::join!(tokens.authorization(), tokens.authorization(), tokens.authorization());
    assert!(first.is_err() && first == second && second == third, "{first:?} {second:?} {third:?}");
    assert_eq!(attempts.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_metadata_server_gives_tokens_and_facts() {
    let answers = [
        json(r#"{"access_token": "meta", "expires_in": 100}"#),
        json("project-1\n"),
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
        json("projects/1/zones/us-central1-a"),
    ];
    let mut server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
    let host = format!("127.0.0.1:{}", server.port);
    let environment = |name: &str| (name == "GCE_METADATA_HOST").then(|| host.clone());
    let options = GoogleOptions { scopes: "a b", ..GoogleOptions::default() };
    let tokens = GoogleTokens::with(options, &environment).unwrap();
    assert_eq!(tokens.authorization().await.unwrap(), "Bearer meta");
    let request = server.received.recv().await.unwrap();
    let path = "GET /computeMetadata/v1/instance/service-accounts/default/token?scopes=a%2Cb HTTP/1.1";
    assert!(request.starts_with(path) && request.contains("metadata-flavor: Google"), "{request}");
    let metadata = GoogleMetadata::with("", &environment).unwrap();
    assert_eq!(metadata.fact(MetadataFact::Project).await, Ok(Some("project-1".to_owned())));
    assert_eq!(metadata.fact(MetadataFact::Location).await, Ok(Some("us-central1-a".to_owned())));
}

/// Held while the file system of the next test hangs.
static HUNG: Mutex<()> = Mutex::new(());

#[test]
fn nobody_waits_for_a_file_system_that_hangs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let hung = HUNG.lock();
    runtime.block_on(async {
        let answers = ["one", "two"].map(|token| json(&format!(r#"{{"access_token": "{token}", "expires_in": 3600}}"#)));
        let server = TestServer::start(&answers.each_ref().map(String::as_str), None).await;
        let options = GoogleOptions {
            key_file: user_file(directory.path()),
            token_endpoint: format!("http://127.0.0.1:{}/", server.port),
            ..GoogleOptions::default()
        };
        let mut tokens = GoogleTokens::with(options, &none).unwrap();
        assert_eq!(tokens.authorization().await.unwrap(), "Bearer one");
        tokens.files = FileAccess {
            stamp: |path| {
                drop(HUNG.lock());
                stamp(path)
            },
            read: |path| {
                drop(HUNG.lock());
                Key::read(path)
            },
        };
        tokens.looks.lock().at = None;
        // Another task of the thread goes on meanwhile.
        let mut turns = 0;
        let others = async {
            loop {
                turns += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            token = tokens.authorization() => assert_eq!(token.unwrap(), "Bearer one", "the last one is used on"),
            () = others => {}
        }
        assert!(turns > 1, "{turns}");
        // No later call waits, but for a token that there is not.
        tokens.looks.lock().at = None;
        tokio::select! {
            biased;
            token = tokens.authorization() => assert_eq!(token.unwrap(), "Bearer one"),
            () = std::future::ready(()) => panic!("it waits"),
        }
        tokens.tokens.forget();
        let why = tokens.authorization().await.unwrap_err();
        assert!(why.ends_with("an earlier read of the file has not ended: its file system may hang"), "{why}");
        drop(hung);
        let end = Instant::now() + Duration::from_secs(60);
        while !tokens.authorization().await.is_ok_and(|token| token == "Bearer two") {
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
