//! Sources and sinks against each other over sockets: TLS and access list, lost connections, call-outs, the protocol of old releases.

#![cfg(test)]

#[path = "support/support.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use mixer_mcp::message::{MeshConfigRequest, MeshConfigResponse, RequestResources, Resources};
use mixer_mcp::{
    CallOut, ClientAuth, ClientOptions, Rate, ServerOptions, Services, Sink, SinkCollection, SinkOptions,
    Snapshot, Source, SourceOptions, Target,
};
use mixer_net::tls::{ClientTlsOptions, ServerTlsOptions};
use support::{Authority, COLLECTION, Harness, RawStream, Running, TYPE, collection, eventually, sink};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_sink_follows_a_source_and_keeps_what_it_has_without_one() {
    for incremental in [false, true] {
        let harness = Harness::start().await;
        harness.publish("1", &[("ns/a", "1"), ("ns/b", "1")]);
        let (sink, application) = sink(incremental);
        let following = Running::follow(&sink, &application, ClientOptions::new(harness.address.to_string()));
        eventually("the first state", || application.names() == ["ns/a=1", "ns/b=1"]).await;
        let at = harness.publish("2", &[("ns/b", "2"), ("ns/c", "1")]);
        let target = Target::Publication(at);
        let progress = harness.cache.ledger().wait(&target, |progress| progress.is_complete(1)).await;
        assert_eq!(progress.acknowledged[0].node, "default");
        assert_eq!(application.names(), ["ns/b=2", "ns/c=1"]);
        let status = sink.status();
        assert_eq!(status.source, Some(harness.address.to_string()));
        let of_collection = &status.collections[COLLECTION];
        assert_eq!((of_collection.version.as_deref(), of_collection.resources), (Some("2"), 2));
        assert!(of_collection.age.is_some());

        let address = harness.address;
        harness.stop().await;
        eventually("the end of the stream", || sink.status().source.is_none()).await;
        assert_eq!(application.names(), ["ns/b=2", "ns/c=1"]);
        let error = sink.status().error.unwrap();
        assert!(error.contains("Unavailable"), "{error}");

        let harness =
            Harness::start_at(&address.to_string(), SourceOptions::new(vec![COLLECTION.into()])).await;
        harness.publish("9", &[("ns/c", "1"), ("ns/d", "1")]);
        eventually("the state of another source", || application.names() == ["ns/c=1", "ns/d=1"]).await;
        following.stop().await;
        harness.stop().await;
    }
}

#[tokio::test]
async fn lost_connections_lose_nothing() {
    for incremental in [false, true] {
        let harness = Harness::start().await;
        let proxy = support::Proxy::start(harness.address).await;
        let (sink, application) = sink(incremental);
        let following = Running::follow(&sink, &application, ClientOptions::new(proxy.address.to_string()));
        for round in 1..30 {
            let names =
                [("ns/a", round), ("ns/b", round / 2)].map(|(name, version)| (name, version.to_string()));
            let names = names.each_ref().map(|(name, version)| (*name, version.as_str()));
            harness.publish(&round.to_string(), &names);
            // After any number of bytes in either direction.
            proxy.cut_after(fastrand::usize(..600));
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
        }
        proxy.cut_after(usize::MAX);
        harness.publish("last", &[("ns/a", "last")]);
        eventually("the last state", || application.names() == ["ns/a=last"]).await;
        following.stop().await;
        harness.stop().await;
    }
}

#[tokio::test]
async fn a_message_is_encoded_once_for_all_sinks() {
    let harness = Harness::start().await;
    let mut following = Vec::new();
    for number in 0..20 {
        let (sink, application) = sink(number % 2 == 0);
        let options = ClientOptions::new(harness.address.to_string());
        following.push((Running::follow(&sink, &application, options), application));
    }
    let all = |progress: &mixer_mcp::Progress| progress.is_complete(20);
    for version in 1..=5 {
        let text = version.to_string();
        let at = harness.publish(&text, &[("ns/a", &text), ("ns/b", "1")]);
        harness.cache.ledger().wait(&Target::Publication(at), all).await;
    }
    // Everything five times; from the second version on also the difference.
    assert_eq!(harness.source.encodings(), 5 + 4);
    for (following, application) in following {
        assert_eq!(application.names(), ["ns/a=5", "ns/b=1"]);
        following.stop().await;
    }
    harness.stop().await;
}

#[tokio::test]
async fn a_large_collection_arrives() {
    let harness = Harness::start().await;
    let (sink, application) = sink(false);
    let following = Running::follow(&sink, &application, ClientOptions::new(harness.address.to_string()));
    let resource = |number| {
        let body = vec![7_u8; 1 << 20];
        Arc::new(mixer_mcp::Resource::new(&format!("ns/r{number:02}"), "1", TYPE, body))
    };
    let large = mixer_mcp::Collection::new(COLLECTION, "1", (0..9).map(resource));
    harness.cache.set_snapshot("g", Arc::new(Snapshot::of([large])));
    eventually("nine resources", || application.names().len() == 9).await;
    following.stop().await;
    harness.stop().await;
}

#[tokio::test]
async fn a_stopping_server_ends_its_streams() {
    let harness = Harness::start().await;
    let mut stream = RawStream::<Resources>::open(harness.address, support::SOURCE).await.unwrap();
    stream.ask(COLLECTION).await;
    harness.publish("1", &[]);
    assert!(stream.next().await.unwrap().is_some());
    harness.stop().await;
    let status = stream.next().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (tonic::Code::Unavailable, "the server is stopping"));
}

/// A sink that has `a` in version 1, which an earlier process gave it, asks for what is different.
#[tokio::test]
async fn versions_that_begin_anew_with_a_process_are_not_trusted() {
    for (lasting_versions, sent) in [(true, &["ns/c"][..]), (false, &["ns/a", "ns/c"])] {
        let options = SourceOptions { lasting_versions, ..SourceOptions::new(vec![COLLECTION.into()]) };
        let harness = Harness::start_at("127.0.0.1:0", options).await;
        harness.publish("1", &[("ns/a", "1"), ("ns/c", "1")]);
        let mut stream = RawStream::<Resources>::open(harness.address, support::SOURCE).await.unwrap();
        let has = [("ns/a", "1"), ("ns/b", "1")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        let request = RequestResources {
            incremental: true,
            initial_resource_versions: has.into(),
            ..support::request(COLLECTION)
        };
        stream.send(&request).await;
        let message = stream.next().await.unwrap().unwrap();
        let names =
            message.resources.iter().map(|resource| resource.metadata.as_ref().unwrap().name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), sent);
        assert_eq!(message.removed_resources, ["ns/b"]);
        harness.stop().await;
    }
}

/// All sinks come back at once, with what they have: a source whose versions begin anew encodes everything once for all of them.
#[tokio::test]
async fn a_storm_of_sinks_that_come_back_is_encoded_once() {
    let options = SourceOptions { lasting_versions: false, ..SourceOptions::new(vec![COLLECTION.into()]) };
    let harness = Harness::start_at("127.0.0.1:0", options).await;
    harness.publish("1", &[("ns/a", "1"), ("ns/c", "1")]);
    for number in 0..20 {
        let mut stream = RawStream::<Resources>::open(harness.address, support::SOURCE).await.unwrap();
        let gone = format!("ns/b{number}");
        let has = [("ns/a", "1"), (gone.as_str(), "1")]
            .map(|(name, version)| (name.to_owned(), version.to_owned()));
        let request = RequestResources {
            incremental: number % 2 == 0,
            initial_resource_versions: has.into(),
            ..support::request(COLLECTION)
        };
        stream.send(&request).await;
        let message = stream.next().await.unwrap().unwrap();
        assert_eq!((message.resources.len(), message.incremental), (2, number % 2 == 0));
        // A message that is not of differences replaces everything.
        let removed = if message.incremental { vec![gone] } else { Vec::new() };
        assert_eq!(message.removed_resources, removed);
    }
    assert_eq!(harness.source.encodings(), 1);
    harness.stop().await;
}

#[tokio::test]
async fn a_malformed_message_ends_its_stream_only() {
    let harness = Harness::start().await;
    harness.publish("1", &[("ns/a", "1")]);
    let channel = support::channel(harness.address).await;
    let open = async || RawStream::<Resources>::open_on(channel.clone(), support::SOURCE).await.unwrap();
    let mut good = open().await;
    for (bytes, code) in [
        // A field of an impossible type, text that is not UTF-8, a message above the limit.
        (vec![0x0f, 0xff], tonic::Code::Internal),
        (vec![0x12, 0x01, 0xff], tonic::Code::Internal),
        (vec![0_u8; 2 << 20], tonic::Code::ResourceExhausted),
    ] {
        let mut bad = open().await;
        bad.send_bytes(bytes).await;
        assert_eq!(bad.next().await.unwrap_err().code(), code);
    }
    // An empty message asks for a collection without a name.
    let mut empty = open().await;
    empty.send_bytes(Vec::new()).await;
    let status = empty.next().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (tonic::Code::InvalidArgument, "unsupported collection \"\"")
    );
    good.ask(COLLECTION).await;
    assert_eq!(good.next().await.unwrap().unwrap().resources.len(), 1);
    drop(good);
    eventually("no open streams", || harness.source.open_streams() == 0).await;
    harness.stop().await;
}

#[tokio::test]
async fn acks_are_not_limited_and_first_requests_are() {
    let rate = Rate { every: Duration::from_secs(3600), burst: 1 };
    let options =
        SourceOptions { requests: rate, ..SourceOptions::new(vec![COLLECTION.into(), "other".into()]) };
    let harness = Harness::start_at("127.0.0.1:0", options).await;
    let mut stream = RawStream::<Resources>::open(harness.address, support::SOURCE).await.unwrap();
    stream.ask(COLLECTION).await;
    for version in 1..200 {
        harness.publish(&version.to_string(), &[]);
        let message = stream.next().await.unwrap().unwrap();
        assert_eq!(message.system_version_info, version.to_string());
        stream
            .send(&RequestResources { response_nonce: message.nonce, ..support::request(COLLECTION) })
            .await;
    }
    // Not served: were it read, the stream would end.
    stream.ask("nothing").await;
    harness.publish("last", &[]);
    assert_eq!(stream.next().await.unwrap().unwrap().system_version_info, "last");
    harness.stop().await;
}

#[tokio::test]
async fn the_protocol_of_old_releases_is_served_if_asked_for() {
    let legacy = vec![(Arc::from(TYPE), Arc::from(COLLECTION))];
    let options = SourceOptions { legacy, ..SourceOptions::new(vec![COLLECTION.into()]) };
    let harness = Harness::start_at("127.0.0.1:0", options).await;
    harness.publish("1", &[("ns/a", "1")]);
    let mut stream =
        RawStream::<MeshConfigResponse>::open(harness.address, support::AGGREGATED).await.unwrap();
    let request = MeshConfigRequest { type_url: TYPE.to_owned(), ..MeshConfigRequest::default() };
    stream.send(&request).await;
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(
        (first.type_url.as_str(), first.version_info.as_str(), first.nonce.as_str()),
        (TYPE, "1", "1")
    );
    assert_eq!(first.resources.len(), 1);
    stream.send(&MeshConfigRequest { response_nonce: "1".to_owned(), ..request }).await;
    harness.publish("2", &[]);
    let second = stream.next().await.unwrap().unwrap();
    assert_eq!((second.version_info.as_str(), second.nonce.as_str(), second.resources.len()), ("2", "2", 0));
    stream.send(&MeshConfigRequest { type_url: "other".to_owned(), ..MeshConfigRequest::default() }).await;
    let status = stream.next().await.unwrap_err();
    assert_eq!(status.message(), "unsupported collection \"other\"");
    let refused = RawStream::<Resources>::open(harness.address, support::INCREMENTAL_AGGREGATED).await;
    assert_eq!(refused.err().map(|status| status.code()), Some(tonic::Code::Unimplemented));
    harness.stop().await;

    let harness = Harness::start().await;
    let refused = RawStream::<Resources>::open(harness.address, support::AGGREGATED).await;
    assert_eq!(refused.err().map(|status| status.code()), Some(tonic::Code::Unimplemented));
    harness.stop().await;
}

#[tokio::test]
async fn a_source_calls_a_sink() {
    let (sink, application) = sink(false);
    let services = Services { source: None, sink: Some((Arc::clone(&sink), Box::new(application.clone()))) };
    let server = support::Serving::start(ServerOptions::new(support::any_address()), services).await;
    // A source without a server.
    let (cache, source) = support::source(SourceOptions::new(vec![COLLECTION.into()]));
    cache.set_snapshot("g", Arc::new(Snapshot::of([collection("1", &[("ns/a", "1")])])));
    let call_out = CallOut::new(Arc::clone(&source), ClientOptions::new(server.address.to_string()));
    let stop = CancellationToken::new();
    let until = stop.clone();
    let calling = tokio::spawn(async move { call_out.run(until).await });
    eventually("the first state", || application.names() == ["ns/a=1"]).await;
    let at = cache.set_snapshot("g", Arc::new(Snapshot::of([collection("2", &[("ns/b", "1")])])));
    cache.ledger().wait(&Target::Publication(at), |progress| progress.is_complete(1)).await;
    assert_eq!(application.names(), ["ns/b=1"]);
    // The trigger was refused as an unknown collection.
    let refused = sink.journal().into_iter().filter_map(|entry| entry.refusal).collect::<Vec<_>>();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (refused[0].code, refused[0].message.as_str()),
        (12, "unsupported collection $triggerCollection")
    );

    // The server comes back: it is called again.
    let address = server.address;
    server.stop().await;
    let (second, application) = support::sink(false);
    let services = Services { source: None, sink: Some((second, Box::new(application.clone()))) };
    let options = ServerOptions::new(support::address(&address.to_string()));
    let server = support::Serving::start(options, services).await;
    eventually("the state at another sink", || application.names() == ["ns/b=1"]).await;
    stop.cancel();
    calling.await.unwrap();
    eventually("no open streams", || source.open_streams() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn clients_need_a_certificate_that_the_list_allows() {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new(files.path());
    authority.issue("server", &["127.0.0.1"]);
    authority.issue("mixer", &["spiffe://cluster.local/ns/istio-system/sa/mixer"]);
    authority.issue("host", &["10.0.0.7"]);
    authority.issue("other", &["spiffe://cluster.local/ns/other/sa/x"]);
    let list = files.path().join("list.yaml");
    let allow =
        |names: &str| std::fs::write(&list, format!("isBlacklist: false\nallowed: [{names}]\n")).unwrap();
    allow("spiffe://cluster.local/ns/istio-system/sa/mixer, 10.0.0.7");
    let path = |name: &str| files.path().join(name);
    let tls = ServerTlsOptions {
        cert_file: path("server.pem"),
        key_file: path("server.key"),
        client_ca_file: path("ca.pem"),
        ..ServerTlsOptions::default()
    };
    let options = ServerOptions {
        tls: Some(tls),
        access_list: Some(list.clone()),
        ..ServerOptions::new(support::any_address())
    };
    let (cache, source) = support::source(SourceOptions::new(vec![COLLECTION.into()]));
    cache.set_snapshot("g", Arc::new(Snapshot::of([collection("1", &[("ns/a", "1")])])));
    let server = support::Serving::start(options, Services { source: Some(source), sink: None }).await;
    let client = |name: &str| {
        let files = ClientTlsOptions {
            ca_file: path("ca.pem"),
            cert_file: path(&format!("{name}.pem")),
            key_file: path(&format!("{name}.key")),
            ..ClientTlsOptions::default()
        };
        let auth = ClientAuth::named("MUTUAL_TLS", files).unwrap();
        ClientOptions { auth, ..ClientOptions::new(server.address.to_string()) }
    };
    let start = |options: ClientOptions| {
        let (sink, application) = sink(false);
        let following = Running::follow(&sink, &application, options);
        (sink, application, following)
    };
    let mixer = start(client("mixer"));
    let host = start(client("host"));
    for (_, application, _) in [&mixer, &host] {
        eventually("the state of an allowed sink", || application.names() == ["ns/a=1"]).await;
    }
    let other = start(client("other"));
    let no_certificate =
        ClientAuth::named("TLS", ClientTlsOptions { ca_file: path("ca.pem"), ..Default::default() });
    let nobody = start(ClientOptions { auth: no_certificate.unwrap(), ..client("mixer") });
    // Files that are not there yet are waited for.
    let late = start(client("late"));
    let error = |sink: &mixer_mcp::Sink| sink.status().error.unwrap_or_default();
    let refusal = "Authentication failure: no allowed identity found in peer's authentication info";
    eventually("a refusal", || error(&other.0).contains(refusal)).await;
    eventually("a failed handshake", || error(&nobody.0).contains("Unavailable")).await;
    eventually("a missing file", || error(&late.0).contains("late.pem")).await;
    authority.issue("late", &["spiffe://cluster.local/ns/istio-system/sa/mixer"]);
    eventually("the state of a late sink", || late.1.names() == ["ns/a=1"]).await;
    // The list is followed: whoever is no longer on it loses the stream.
    allow("10.0.0.7, spiffe://cluster.local/ns/other/sa/x");
    eventually("an end", || error(&mixer.0).contains(refusal)).await;
    eventually("the state of a sink that is allowed now", || other.1.names() == ["ns/a=1"]).await;
    assert!(host.0.status().source.is_some(), "others keep their streams");
    for (_, _, following) in [mixer, host, other, nobody, late] {
        following.stop().await;
    }
    server.stop().await;
}

#[test]
fn modes_of_authentication_have_names() {
    let named = |name: &str| ClientAuth::named(name, ClientTlsOptions::default());
    assert_eq!((named("NONE"), named("GOOGLE")), (Ok(ClientAuth::None), Ok(ClientAuth::Google)));
    assert_eq!(named("basic"), Err("auth plugin basic not found".to_owned()));
    assert_eq!(named(""), Err("auth plugin  not found".to_owned()));
}

#[test]
fn metadata_that_no_header_can_have_is_refused() {
    let cache = mixer_mcp::Cache::new(|_, _| "g".into());
    let metadata = vec![("a b".to_owned(), "c".to_owned())];
    let options = SourceOptions { metadata, ..SourceOptions::new(Vec::new()) };
    let refused = Source::new(cache, options, &Arc::default()).unwrap_err();
    assert!(refused.starts_with("`a b=c` cannot be sent as metadata"), "{refused}");
}

#[tokio::test]
async fn a_source_whose_message_ends_each_stream_is_asked_ever_less_often() {
    const LARGE: &str = "istio/policy/v1beta1/instances";
    let harness =
        Harness::start_at("127.0.0.1:0", SourceOptions::new(vec![COLLECTION.into(), LARGE.into()])).await;
    let body = vec![7_u8; 64 << 10];
    let large = mixer_mcp::Resource::new("ns/large", "1", TYPE, body);
    let large = mixer_mcp::Collection::new(LARGE, "1", [Arc::new(large)]);
    harness.cache.set_snapshot("g", Arc::new(Snapshot::of([collection("1", &[("ns/a", "1")]), large])));
    let asked = [COLLECTION, LARGE].map(|name| SinkCollection {
        name: name.into(),
        type_url: Some(TYPE.into()),
        incremental: false,
    });
    let options = SinkOptions {
        max_message: 16 << 10,
        pauses: (Duration::from_millis(10), Duration::from_secs(10)),
        ..SinkOptions::new("mixer", asked.to_vec())
    };
    let sink = Sink::new(options, &Arc::default());
    let application = support::Application::default();
    let following = Running::follow(&sink, &application, ClientOptions::new(harness.address.to_string()));
    eventually("the first end", || sink.status().error.is_some()).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // Each stream begins with two requests. The pauses of eight streams have more than a second, and the journal keeps 32 requests.
    let requests = sink.journal().len();
    assert!(requests <= 8 * 3, "{requests}");
    following.stop().await;
    harness.stop().await;
}
