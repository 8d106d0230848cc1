use super::admission::{OVER_SHARE, RESERVED_FOR_CHECKS};
use super::*;
use mixer_base::metrics::{Family, Metrics};

#[test]
fn a_bucket_without_burst_admits_nothing() {
    let limit = RateLimit::new(100.0, 0.0);
    assert!(limit.exceeded(1, 0.0, Instant::now() + Duration::from_secs(5)).is_some());
    assert!(limit.exceeded(0, 0.0, Instant::now()).is_none(), "a report without bags costs nothing");
}

#[test]
fn tokens_refill_at_the_rate_and_rejections_take_none() {
    let limit = RateLimit::new(10.0, 2.0);
    let start = Instant::now();
    assert!(limit.exceeded(2, 0.0, start).is_none());
    assert!(limit.exceeded(2, 0.0, start + Duration::from_millis(100)).is_some());
    assert!(limit.exceeded(1, 0.0, start + Duration::from_millis(101)).is_none());
    let text = limit.exceeded(1, 0.0, start + Duration::from_millis(101)).expect("empty again").0;
    assert!(text.contains("(limit: 10.000000)"), "{text}");
}

#[test]
fn the_average_halves_its_distance_in_a_half_life() {
    let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
    let start = Instant::now();
    limit.sample(Duration::from_millis(100), start);
    assert!(limit.exceeded(1.0, start).is_some());
    limit.sample(Duration::ZERO, start + Duration::from_secs(2));
    assert!(limit.exceeded(1.0, start + Duration::from_secs(2)).is_none());
}

#[test]
fn a_server_that_rejected_everything_recovers() {
    let limit = LatencyLimit::new(Duration::from_millis(50), Duration::from_secs(1), f64::MAX);
    let start = Instant::now();
    limit.sample(Duration::from_millis(90), start);
    assert!(limit.exceeded(1.0, start + Duration::from_millis(100)).is_some());
    assert!(limit.exceeded(1.0, start + Duration::from_secs(1)).is_none());
}

#[test]
fn without_a_burst_size_a_second_of_calls_passes_at_once() {
    for (rate, burst_size, admitted) in [
        (3.0, None, 3),
        (2.5, None, 3),
        (0.1, None, 1),
        (3.0, Some(1), 1),
        (3.0, Some(0), 0),
        (3.0, Some(-1), 0),
    ] {
        let shedder = shedder(|o| (o.max_requests_per_second, o.burst_size) = (rate, burst_size));
        let now = Instant::now();
        let calls = (0..5).filter(|_| shedder.admit_at(check(1), now).is_ok()).count();
        assert_eq!(calls, admitted, "{rate} {burst_size:?}");
    }
    let shown = |burst_size, max_requests_per_second| {
        let options =
            LoadSheddingOptions { burst_size, max_requests_per_second, ..LoadSheddingOptions::default() };
        options.to_string().rsplit('=').next().map(str::to_owned)
    };
    for (shown, told) in [
        (shown(None, 0.0), "0"),
        (shown(None, 2.5), "3"),
        (shown(Some(0), 2.5), "0"),
        (shown(Some(7), 2.5), "7"),
    ] {
        assert_eq!(shown.as_deref(), Some(told));
    }
}

fn check(cost: usize) -> Demand {
    Demand { cost, is_report: false, caller: 0 }
}

fn shedder(change: impl FnOnce(&mut LoadSheddingOptions)) -> LoadShedder {
    let mut options = LoadSheddingOptions {
        mode: LoadSheddingMode::Enforce,
        max_requests_per_second: 100.0,
        burst_size: Some(10),
        ..LoadSheddingOptions::default()
    };
    change(&mut options);
    let throttled = Metrics::new().counter(Family::LoadSheddingThrottled, &[]);
    LoadShedder::new(&options, throttled).expect("there is a limit")
}

#[test]
fn reports_do_not_use_the_reserve() {
    let shedder = shedder(|o| o.check_reserve = 0.4);
    let now = Instant::now();
    let report = |cost| Demand { cost, is_report: true, caller: 0 };
    assert_eq!(shedder.admit_at(report(6), now), Ok(()));
    assert_eq!(shedder.admit_at(report(1), now), Err(RESERVED_FOR_CHECKS));
    assert_eq!(shedder.admit_at(report(0), now), Ok(()), "a report without bags costs nothing");
    assert_eq!(shedder.admit_at(check(4), now), Ok(()));
    assert_eq!(shedder.admit_at(check(1), now), Err(OVERLOADED));
    assert!(RESERVED_FOR_CHECKS.starts_with(OVERLOADED) && OVER_SHARE.starts_with(OVERLOADED));
}

#[test]
fn latency_rejects_reports_before_checks() {
    let shedder = shedder(|o| {
        o.max_requests_per_second = 0.0;
        o.average_latency_threshold = SignedDuration::from_millis(100);
        o.check_reserve = 0.5;
    });
    shedder.completed(Duration::from_millis(70));
    assert_eq!(shedder.admit(Demand { cost: 1, is_report: true, caller: 0 }), Err(RESERVED_FOR_CHECKS));
    assert_eq!(shedder.admit(check(1)), Ok(()));
}

/// Admitted calls of two callers in ten seconds, one of which calls twenty times as often.
fn admitted(fair: bool) -> (u32, u32) {
    let shedder = shedder(|o| o.fair = fair);
    let start = Instant::now();
    let (mut greedy, mut modest) = (0, 0);
    for millis in 0..10_000_u64 {
        let now = start + Duration::from_millis(millis);
        let ask =
            |caller| u32::from(shedder.admit_at(Demand { cost: 1, is_report: false, caller }, now).is_ok());
        greedy += ask(1);
        if millis % 20 == 0 {
            modest += ask(2);
        }
    }
    (greedy, modest)
}

#[test]
fn callers_share_the_rate() {
    // 50 per second is half of the rate: the modest caller stays within its share.
    let (_, unfair) = admitted(false);
    let (greedy, fair) = admitted(true);
    assert!(fair > 480, "of 500 calls within its share {fair} were admitted");
    assert!(unfair < 120, "{unfair}");
    assert!(fair + greedy > 950, "the rate is used up: {greedy} and {fair} of 1000");
}

/// A trial of limits refuses nothing, and shows what they would refuse.
#[test]
fn calls_over_the_limits_count_in_both_modes() {
    for (mode, refused) in [(LoadSheddingMode::LogOnly, 0), (LoadSheddingMode::Enforce, 2)] {
        let options = LoadSheddingOptions {
            mode,
            max_requests_per_second: 1.0,
            burst_size: Some(1),
            ..LoadSheddingOptions::default()
        };
        let throttled = Metrics::new().counter(Family::LoadSheddingThrottled, &[]);
        let shedder = LoadShedder::new(&options, throttled.clone()).expect("there is a limit");
        let now = Instant::now();
        let errors = (0..3).filter(|_| shedder.admit_at(check(1), now).is_err()).count();
        assert_eq!((errors, throttled.get()), (refused, 2), "{mode:?}");
    }
}
