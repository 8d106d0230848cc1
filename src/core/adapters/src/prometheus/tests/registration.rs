//! Metrics and the listener across handlers and reloads.

use super::*;

#[tokio::test]
async fn bad_metrics_refuse_the_handler_and_change_nothing() {
    let env = test_env("h.istio-system");
    let m = metric("m", &[]);
    let good = params(vec![info("m", MetricKind::Counter, &[])]);
    let handler = build(&good, std::slice::from_ref(&m), &env).await.unwrap();
    report(&*handler, 0, &m.name, &[number(1.0)]).unwrap();
    let same_name =
        |labels: &[&str]| MetricInfo { name: "m".to_owned(), ..info("n", MetricKind::Counter, labels) };
    let descending = ExplicitBuckets { bounds: vec![3.0, 1.0] };
    let cases = [
        (info("x", MetricKind::Unspecified, &[]), "unknown metric kind (0); could not register metric "),
        (same_name(&["b"]), "could not register metric: "),
        (MetricInfo { description: "other".to_owned(), ..same_name(&[]) }, "could not register metric: "),
        (MetricInfo { kind: MetricKind::Gauge, ..same_name(&[]) }, "could not register metric: "),
        (
            MetricInfo {
                buckets: Some(BucketsDefinition {
                    explicit_buckets: Some(descending),
                    ..BucketsDefinition::default()
                }),
                ..info("d", MetricKind::Distribution, &[])
            },
            "could not register metric: histogram buckets must be in increasing order",
        ),
    ];
    for (bad, why) in cases {
        let params = params(vec![good.metrics[0].clone(), bad]);
        let error = build(&params, std::slice::from_ref(&m), &env).await.err().unwrap().to_string();
        assert!(error.starts_with(&format!("1 error occurred:\n\t* {why}")), "{error}");
    }
    assert_eq!(scrape(&env), ["istio_m 1"]);
    // The failed builds hold no share of the listener.
    handler.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(env.commons.get::<Endpoint>().address(), None);
}

#[tokio::test]
async fn series_of_a_histogram_have_their_names_alone() {
    let histogram = info("hist", MetricKind::Distribution, &[]);
    for end in ["count", "sum", "bucket"] {
        let series = info(&format!("hist_{end}"), MetricKind::Counter, &[]);
        let why = format!("\"istio_hist_{end}\" is the name of a series of the histogram \"istio_hist\"");
        for both in [[&histogram, &series], [&series, &histogram]] {
            let both = params(both.map(MetricInfo::clone).to_vec());
            let refused = build(&both, &[], &test_env("h.istio-system")).await.err().unwrap();
            assert!(refused.to_string().contains(&why), "{refused}");
            let mut problems = Diagnostics::new();
            Prometheus::validate(&both, &[], &mut problems);
            assert!(problems.iter().any(|problem| problem.message.contains(&why)), "{why}");
        }
        // Those of another handler.
        let env = test_env("h.istio-system");
        let _first = build(&params(vec![histogram.clone()]), &[], &env).await.unwrap();
        let other = Env { handler_name: "i.istio-system".into(), ..env };
        let refused = build(&params(vec![series.clone()]), &[], &other).await.err().unwrap();
        assert!(refused.to_string().contains(&why), "{refused}");
    }
    let others = ["hist_counts", "histcount", "his", "hist_count_total"];
    let others = others.iter().map(|name| info(name, MetricKind::Counter, &[]));
    let metrics = std::iter::once(histogram).chain(others).collect();
    assert!(build(&params(metrics), &[], &test_env("h.istio-system")).await.is_ok());
}

#[tokio::test]
async fn equal_metrics_are_shared() {
    let env = test_env("h.istio-system");
    let instances = [metric("a", &[]), metric("b", &[])];
    let twin = MetricInfo { name: "a".to_owned(), ..info("b", MetricKind::Counter, &[]) };
    let handler =
        build(&params(vec![info("a", MetricKind::Counter, &[]), twin]), &instances, &env).await.unwrap();
    report(&*handler, 0, &instances[0].name, &[number(1.0)]).unwrap();
    report(&*handler, 1, &instances[1].name, &[number(2.0)]).unwrap();
    assert_eq!(scrape(&env), ["istio_a 3"]);
}

#[tokio::test]
async fn values_survive_reloads_unless_a_metric_is_redefined() {
    let env = test_env("h.istio-system");
    let other_env = Env { handler_name: "other.istio-system".into(), ..env.clone() };
    let instances = [metric("m", &[]), metric("n", &[])];
    let m = info("m", MetricKind::Counter, &[]);
    let n = info("n", MetricKind::Counter, &[]);
    let other = build(&params(vec![info("o", MetricKind::Counter, &[])]), &[metric("o", &[])], &other_env)
        .await
        .unwrap();
    let first = build(&params(vec![m.clone(), n.clone()]), &instances, &env).await.unwrap();
    let add = |handler: &dyn Handler| {
        report(handler, 0, &instances[0].name, &[number(1.0)]).unwrap();
        report(handler, 1, &instances[1].name, &[number(1.0)]).unwrap();
    };
    add(&*first);
    report(&*other, 0, "o.instance.istio-system", &[number(1.0)]).unwrap();
    assert_eq!(scrape(&env), ["istio_m 1", "istio_n 1", "istio_o 1"]);

    // A metric that is no longer configured is kept, and so is one whose limit has changed.
    let limited = MetricInfo { max_series: 7, ..m.clone() };
    let second = build(&params(vec![limited]), &instances, &env).await.unwrap();
    first.close(Duration::from_secs(1)).await.unwrap();
    add(&*second);
    assert_eq!(scrape(&env), ["istio_m 2", "istio_n 2", "istio_o 1"]);

    // A redefinition empties the metrics of its handler, and leaves those of others alone.
    let described = MetricInfo { description: "now described".to_owned(), ..m };
    let third = build(&params(vec![described, n]), &instances, &env).await.unwrap();
    second.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(scrape(&env), ["istio_o 1"]);
    add(&*third);
    report(&*other, 0, "o.instance.istio-system", &[number(5.0)]).unwrap();
    assert_eq!(scrape(&env), ["istio_m 1", "istio_n 1", "istio_o 6"]);
}

#[tokio::test]
async fn a_redefinition_detaches_no_other_handler() {
    let env = test_env("h.istio-system");
    let other_env = Env { handler_name: "other.istio-system".into(), ..env.clone() };
    let instances = [metric("m", &["a", "b"]), metric("n", &["a"])];
    let m = info("m", MetricKind::Counter, &["a", "b"]);
    let n = info("n", MetricKind::Counter, &["a"]);
    let both = params(vec![m.clone(), n.clone()]);
    let first = build(&both, &instances, &env).await.unwrap();
    let other = build(&both, &instances, &other_env).await.unwrap();
    let add = |handler: &dyn Handler| {
        let both = [number(1.0), text("x"), text("y")];
        report(handler, 0, &instances[0].name, &both).unwrap();
        report(handler, 1, &instances[1].name, &both[..2]).unwrap();
    };
    add(&*first);
    add(&*other);
    assert_eq!(scrape(&env), [r#"istio_m{a="x",b="y"} 2"#, r#"istio_n{a="x"} 2"#]);
    let described = MetricInfo { description: "now described".to_owned(), ..m };
    let second = build(&params(vec![described, n]), &instances, &env).await.unwrap();
    first.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(scrape(&env), [r#"istio_n{a="x"} 2"#], "only what is redefined loses its values");
    add(&*other);
    add(&*second);
    assert_eq!(scrape(&env), [r#"istio_m{a="x",b="y"} 2"#, r#"istio_n{a="x"} 4"#]);
    assert_eq!(other.status().queues[0].length, 1, "the status shows the metric that is fed");

    // The dimensions of an instance no longer fit the labels: the handler says so.
    let narrower = params(vec![info("m", MetricKind::Counter, &["a"])]);
    let third = build(&narrower, &[metric("m", &["a"])], &env).await.unwrap();
    let error = report(&*other, 0, &instances[0].name, &[number(1.0), text("x"), text("y")]).unwrap_err();
    assert!(error.message.contains("inconsistent label cardinality"), "{}", error.message);
    report(&*third, 0, &instances[0].name, &[number(7.0), text("z")]).unwrap();
    assert_eq!(scrape(&env), [r#"istio_m{a="z"} 7"#, r#"istio_n{a="x"} 4"#]);
}

#[tokio::test]
async fn the_listener_lives_from_the_first_handler_to_the_last() {
    let env = test_env("h.istio-system");
    let endpoint = env.commons.get::<Endpoint>();
    assert_eq!(endpoint.address(), None);
    let m = metric("m", &["l"]);
    let params = params(vec![info("m", MetricKind::Counter, &["l"])]);
    let first = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    let address = endpoint.address().unwrap();
    let second = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    assert_eq!(endpoint.address(), Some(address));
    first.close(Duration::from_secs(5)).await.unwrap();
    drop(first);
    let (head, body) = get(address, "/metrics", "").await;
    assert!(
        head.starts_with("http/1.1 200 ok") && head.contains("text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert_eq!(body, b"");
    for label in 0..100 {
        report(&*second, 0, &m.name, &[number(1.0), text(&label.to_string())]).unwrap();
    }
    let (head, body) = get(address, "/metrics", "Accept-Encoding: gzip\r\n").await;
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut plain = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&body[..]), &mut plain).unwrap();
    assert_eq!(plain.as_bytes(), endpoint.text());
    assert_eq!(plain.lines().count(), 102);
    assert!(get(address, "/", "").await.0.starts_with("http/1.1 404"));

    // Another server cannot have the port.
    let taken = Env { metrics_port: address.port(), ..test_env("h.istio-system") };
    let error = build(&params, std::slice::from_ref(&m), &taken).await.err().unwrap().to_string();
    let port = address.port();
    assert_eq!(
        error,
        format!(
            "could not start prometheus metrics server: listen tcp :{port}: bind: address already in use"
        )
    );

    second.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(endpoint.address(), None);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    // And again, with the values of before.
    let third = build(&params, &[m], &Env { metrics_port: port, ..env.clone() }).await.unwrap();
    assert_eq!(String::from_utf8(get(endpoint.address().unwrap(), "/metrics", "").await.1).unwrap(), plain);
    drop(third);
    assert_eq!(endpoint.address(), None);

    // An address instead of all interfaces.
    env.commons.insert(std::sync::Arc::new(crate::MetricsAddress("127.0.0.1:0".to_owned())));
    let fourth = build(&params, &[metric("m", &["l"])], &env).await.unwrap();
    let address = endpoint.address().unwrap();
    assert!(address.ip().is_loopback() && !get(address, "/metrics", "").await.1.is_empty(), "{address}");
    drop(fourth);
    env.commons.insert(std::sync::Arc::new(crate::MetricsAddress("192.0.2.1:7".to_owned())));
    let error = build(&params, &[metric("m", &["l"])], &env).await.err().unwrap().to_string();
    assert!(
        error.starts_with("could not start prometheus metrics server: listen tcp 192.0.2.1:7: "),
        "{error}"
    );
}
