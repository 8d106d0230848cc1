//! Bounds of series, labels and scrapes, and the expiry of series.

use super::*;

#[tokio::test]
async fn a_series_lives_for_its_whole_expiry() {
    let clock = TestClock::at(Duration::from_secs(1_000));
    let env = Env { clock: clock.clone(), ..test_env("h.istio-system") };
    let m = metric("m", &[]);
    let params = Params {
        metrics_expiration_policy: Some(MetricsExpirationPolicy {
            metrics_expiry_duration: SignedDuration::from_secs(1),
            // The test sweeps.
            expiry_check_interval_duration: SignedDuration::from_secs(-1),
        }),
        ..params(vec![info("m", MetricKind::Counter, &[])])
    };
    let handler = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    let sweep = |millis: u64| {
        let now = Duration::from_millis(1_000_000 + millis);
        clock.set(now);
        let endpoint = env.commons.get::<Endpoint>();
        endpoint.metrics().iter().for_each(|metric| metric.sweep(now.as_nanos() as u64));
        scrape(&env).len()
    };
    clock.set(Duration::from_millis(1_000_900));
    report(&*handler, 0, &m.name, &[number(1.0)]).unwrap();
    assert_eq!(sweep(1500), 1, "updated 600 ms ago");
    assert_eq!(sweep(1899), 1);
    assert_eq!(sweep(1900), 0);
}

#[tokio::test]
async fn the_number_of_series_is_limited() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let limited =
        |max_series| params(vec![MetricInfo { max_series, ..info("m", MetricKind::Counter, &["l"]) }]);
    let handler = build(&limited(2), std::slice::from_ref(&m), &env).await.unwrap();
    let add = |handler: &dyn Handler| {
        for label in ["a", "b", "c", "d"] {
            report(handler, 0, &m.name, &[number(1.0), text(label)]).unwrap();
        }
    };
    add(&*handler);
    let refused = env.metrics.counter(mixer_base::metrics::Family::PrometheusReportsRefused, &["istio_m"]);
    assert_eq!((scrape(&env).len(), refused.get()), (2, 2));
    let wider = build(&limited(-1), std::slice::from_ref(&m), &env).await.unwrap();
    add(&*wider);
    assert_eq!((scrape(&env).len(), refused.get()), (4, 2));
    assert_eq!(scrape(&env)[0], "istio_m{l=\"a\"} 2");
}

#[tokio::test]
async fn the_memory_of_series_is_limited_whatever_their_number_and_the_length_of_their_labels() {
    let env = test_env("h.istio-system");
    env.commons.insert(Arc::new(MemoryBudget::new(32 << 20)));
    let instances = [metric("m", &["l"]), metric("n", &["l"])];
    let unlimited = |name| MetricInfo { max_series: -1, ..info(name, MetricKind::Distribution, &["l"]) };
    let handler = build(&params(vec![unlimited("m"), unlimited("n")]), &instances, &env).await.unwrap();
    let long = "x".repeat(1 << 20);
    let add = |bound: usize, label: &str| {
        report(&*handler, bound, &instances[bound].name, &[number(1.0), text(label)]).unwrap();
    };
    let refused = |name: &str| {
        env.metrics.counter(mixer_base::metrics::Family::PrometheusReportsRefused, &[name]).get()
    };
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::Series));
    let mut accepted = 0;
    while refused("istio_m") == 0 {
        add(0, &format!("{long}{accepted}"));
        accepted += 1;
        assert!(accepted < 10_000 && share.used() <= share.limit());
    }
    assert!(accepted > 1000, "{accepted} series");
    add(0, &format!("{long}0"));
    add(0, &format!("{long}new"));
    assert_eq!(refused("istio_m"), 2, "a series that exists is not refused");
    add(1, "another metric");
    assert_eq!(refused("istio_n"), 0, "each metric has its guarantee");
    assert!(scrape(&env).iter().all(|line| line.len() < 1100));
    drop(handler);
    env.commons.get::<Endpoint>().forget();
    assert_eq!(share.used(), 0);
}

#[tokio::test]
async fn long_label_values_are_cut_and_stay_apart() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Counter, &["l"])]), std::slice::from_ref(&m), &env)
            .await
            .unwrap();
    let fits = "a".repeat(1024);
    let long = "ä".repeat(600);
    let other = format!("{long}!");
    for label in [&fits, &long, &long, &other] {
        report(&*handler, 0, &m.name, &[number(1.0), text(label)]).unwrap();
    }
    let lines = scrape(&env);
    assert_eq!((lines.len(), &lines[0]), (3, &format!("istio_m{{l=\"{fits}\"}} 1")));
    let values: Vec<(&str, &str)> = lines[1..]
        .iter()
        .map(|l| l.strip_prefix("istio_m{l=\"").unwrap().split_once("\"} ").unwrap())
        .collect();
    let mut counts: Vec<&str> = values.iter().map(|(_, count)| *count).collect();
    counts.sort_unstable();
    assert_eq!(counts, ["1", "2"]);
    for (value, _) in values {
        let (kept, digest) = value.split_once('…').unwrap();
        assert!(value.len() <= 1024 && long.starts_with(kept) && kept.len() > 980, "{value}");
        assert!(digest.len() == 32 && digest.chars().all(|c| c.is_ascii_hexdigit()), "{digest}");
    }
    let cut = env.metrics.counter(mixer_base::metrics::Family::PrometheusLabelsCut, &["istio_m"]);
    assert_eq!(cut.get(), 2, "counted for each series");
}

#[tokio::test]
async fn unread_scrapes_share_renderings_and_are_bounded() {
    let env = test_env("h.istio-system");
    let m = metric("m", &["l"]);
    let handler =
        build(&params(vec![info("m", MetricKind::Distribution, &["l"])]), std::slice::from_ref(&m), &env)
            .await
            .unwrap();
    for label in 0..8_000 {
        let label = format!("{label}{}", "x".repeat(300));
        report(&*handler, 0, &m.name, &[number(1.0), text(&label)]).unwrap();
    }
    let endpoint = env.commons.get::<Endpoint>();
    let whole = endpoint.text();
    assert!(whole.len() > 30 << 20, "the page has {} bytes", whole.len());
    let address = endpoint.address().unwrap();
    let share = Arc::clone(env.commons.get::<MemoryBudget>().share(Purpose::Scrapes));
    let open = move || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8(head.to_vec()).unwrap(), stream)
    };
    // Each client reads the first bytes only.
    let mut unread = Vec::new();
    for _ in 0..60 {
        unread.push(tokio::task::spawn_blocking(open).await.unwrap());
        assert!(share.used() <= share.limit());
    }
    let served = unread.iter().filter(|(head, _)| head == "HTTP/1.1 200").count();
    let refused = unread.iter().filter(|(head, _)| head == "HTTP/1.1 503").count();
    assert_eq!((served, refused), (16, 44));
    assert_eq!(env.metrics.counter(mixer_base::metrics::Family::PrometheusScrapesRefused, &[]).get(), 44);
    // One of them reads on; it gets the whole page, and the others can be gone at any time.
    let (_, mut reader) = unread.swap_remove(0);
    drop(unread);
    let read = move || {
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
        rest.len()
    };
    assert!(tokio::task::spawn_blocking(read).await.unwrap() > whole.len());
    while share.used() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        tokio::task::spawn_blocking(open).await.unwrap().0,
        "HTTP/1.1 200",
        "scrapes are served again"
    );
}

#[tokio::test]
async fn series_are_removed_when_they_expire() {
    let clock = TestClock::at(Duration::from_secs(1_000));
    let env = Env { clock: clock.clone(), ..test_env("h.istio-system") };
    let m = metric("m", &["l"]);
    let params = Params {
        metrics_expiration_policy: Some(MetricsExpirationPolicy {
            metrics_expiry_duration: SignedDuration::from_secs(4),
            expiry_check_interval_duration: SignedDuration::from_nanos(5_000_000),
        }),
        ..params(vec![info("m", MetricKind::Counter, &["l"])])
    };
    let handler = build(&params, std::slice::from_ref(&m), &env).await.unwrap();
    let add = |label| report(&*handler, 0, &m.name, &[number(1.0), text(label)]).unwrap();
    // The clock of the values is moved by hand; the sweeper looks every few real milliseconds.
    let at = async |seconds: u64| {
        clock.set(Duration::from_secs(1_000 + seconds));
        tokio::time::sleep(Duration::from_millis(60)).await;
    };
    add("a");
    add("b");
    at(3).await;
    add("b");
    assert_eq!(scrape(&env), [r#"istio_m{l="a"} 1"#, r#"istio_m{l="b"} 2"#]);
    at(5).await;
    assert_eq!(scrape(&env), [r#"istio_m{l="b"} 2"#]);
    at(9).await;
    assert_eq!(scrape(&env), [""; 0]);
    add("b");
    assert_eq!(scrape(&env), [r#"istio_m{l="b"} 1"#]);
    env.tasks.shut_down().await;
    assert_eq!(env.tasks.live(), 0);
}
