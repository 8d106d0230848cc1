//! Random schedules of changes, outages and forgetting: the store ends equal to the API server, whatever happened.

use super::*;

/// One schedule.
async fn play(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut api = KubeApi::start();
    let mut expected = BTreeMap::new();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut change = |api: &KubeApi, random: &mut fastrand::Rng| {
        let name = names[random.usize(..names.len())];
        let key = format!("shop/{name}");
        if expected.contains_key(&key) && random.bool() {
            api.delete("pods", "shop", name);
            expected.remove(&key);
        } else {
            api.put(pod("shop", name));
            expected.insert(key, api.version().to_string());
        }
    };
    for _ in 0..random.usize(..10) {
        change(&api, &mut random);
    }
    let running = run(&api, Selection::of("Pod", PODS));
    let faults = [
        Fault::Resets,
        Fault::TalksNonsense,
        Fault::Answers(503),
        Fault::Forbids("pods"),
        Fault::EndsWatches,
        Fault::CutsOff(40),
    ];
    for _ in 0..20 {
        match random.u8(..10) {
            0 => api.compact(),
            1 => api.disconnect(),
            2 => api.bookmark(),
            3 => api.fail(Some(faults[random.usize(..faults.len())].clone())),
            4 => api.fail(None),
            5 => {
                api.stop();
                change(&api, &mut random);
                api.resume();
            }
            _ => change(&api, &mut random),
        }
        sleep(Duration::from_millis(random.u64(..6))).await;
    }
    api.fail(None);
    let end = Instant::now() + DEADLINE;
    while running.seen.lock().objects != expected {
        let seen = running.seen.lock().objects.clone();
        assert!(Instant::now() < end, "seed {seed}: {seen:?} instead of {expected:?}");
        sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn the_store_ends_equal_to_the_api_server() {
    let of =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (first, schedules) = (of("MIXER_SEED", 1), of("MIXER_SCHEDULES", 30));
    for seed in first..first + schedules {
        play(seed).await;
    }
}
