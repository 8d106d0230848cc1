//! A handler that takes the place of another one while the source of their list fails.

use super::*;

const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A handler in the server of `env`.
async fn built(params: Params, env: &Env) -> Fixture {
    let mut fixture = Fixture::new(Params::default()).await;
    let leaf = mixer_engine::adapter::Leaf::new("value", None, ValueType::String);
    let bound = BoundInstance {
        name: "e.instance.istio-system".into(),
        template: template::find("listentry").unwrap(),
        leaves: [leaf].into(),
        messages: Vec::new(),
        plan: None,
        read_outputs: Arc::default(),
    };
    let env = Env { commons: Arc::clone(&env.commons), ..test_env("h.istio-system") };
    fixture.handler = ListChecker::build(params, vec![bound], env.clone()).await.unwrap();
    fixture.env = env;
    fixture
}

fn hourly(url: String) -> Params {
    let hour = SignedDuration::from_secs(3600);
    Params { refresh_interval: hour, ttl: hour, blacklist: true, ..params(url) }
}

#[tokio::test]
async fn a_handler_that_is_built_again_begins_with_the_list_of_its_predecessor() {
    let server = Server::start(&ok("a\nb\n"));
    let env = test_env("h.istio-system");
    let before = built(hourly(server.url()), &env).await;
    assert!(!before.has("a") && before.has("c"));
    *server.answer.lock().unwrap() = UNAVAILABLE.to_vec();
    // An entry more, and another type.
    let more = Params {
        overrides: some(&["C"]),
        entry_type: EntryType::CaseInsensitiveStrings,
        ..hourly(server.url())
    };
    let after = built(more.clone(), &env).await;
    assert_eq!(["a", "A", "b", "c", "d"].map(|symbol| after.has(symbol)), [false, false, false, false, true]);
    let failed = format!("could not fetch list from {}: 503", server.url());
    assert_eq!(after.handler.degradation(), Some(failed.clone()), "it is told all the same");
    // So does a third one after the first has gone.
    drop(before);
    assert!(!built(hourly(server.url()), &env).await.has("b"));

    // A list of which nothing is known refuses everybody, whatever kind it is.
    let elsewhere = Params { provider_url: format!("{}x", server.url()), ..hourly(server.url()) };
    for blacklist in [true, false] {
        let unknown = built(Params { blacklist, ..elsewhere.clone() }, &env).await;
        assert_eq!(unknown.error(), format!("could not fetch list from {}x: 503", server.url()));
    }
    let addresses = Params { entry_type: EntryType::IpAddresses, ..hourly(server.url()) };
    assert_eq!(built(addresses, &env).await.error(), failed, "those lines are no addresses");
    // Another server, and Istio Mixer's way.
    assert_eq!(built(more.clone(), &test_env("h.istio-system")).await.error(), failed);
    let istio = test_env("h.istio-system");
    istio.commons.insert(Arc::new(AdapterOptions { as_istio_mixer: true }));
    server.serve("a\n");
    let first = built(hourly(server.url()), &istio).await;
    assert!(!first.has("a"));
    *server.answer.lock().unwrap() = UNAVAILABLE.to_vec();
    assert_eq!(built(more, &istio).await.error(), failed);
}

#[tokio::test]
async fn a_list_keeps_its_age_when_it_is_inherited() {
    let server = Server::start(&ok("a\n"));
    let env = test_env("h.istio-system");
    let before = built(hourly(server.url()), &env).await;
    assert!(!before.has("a"));
    *server.answer.lock().unwrap() = UNAVAILABLE.to_vec();
    let short = Params {
        refresh_interval: SignedDuration::from_secs(1),
        ttl: SignedDuration::from_secs(2),
        ..hourly(server.url())
    };
    let after = built(short.clone(), &env).await;
    let failed = format!("could not fetch list from {}: 503", server.url());
    after.until(|f| f.error() == failed).await;
    // The list is older than the time that a new handler may use it.
    assert_eq!(built(short, &env).await.error(), failed);
    assert!(!built(hourly(server.url()), &env).await.has("a"));
}
