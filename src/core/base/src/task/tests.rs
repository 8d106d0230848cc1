use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn role(name: &str) -> RoleStatus {
    roles().into_iter().find(|role| role.name == name).unwrap()
}

/// A task that fails `times` times, then runs until it is stopped. Returns how often it was started.
async fn failing(task: Task, times: u32, fail: fn()) -> u32 {
    let (stop, starts) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    let (until, counted) = (stop.clone(), Arc::clone(&starts));
    let handle = task.spawn(stop.clone(), move || {
        let (until, started) = (until.clone(), counted.fetch_add(1, Ordering::Relaxed) + 1);
        async move {
            if started > times {
                return until.cancelled().await;
            }
            fail();
        }
    });
    while starts.load(Ordering::Relaxed) <= times && !handle.is_finished() {
        tokio::time::sleep(FIRST_PAUSE).await;
    }
    stop.cancel();
    handle.await.unwrap();
    starts.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_or_ends_is_restarted_and_counted() {
    assert_eq!(failing(Task::restarted("test-panics").of("one"), 3, || panic!("on purpose")).await, 4);
    let counts = role("test-panics");
    assert_eq!((counts.running, counts.panics, counts.ends, counts.restarts), (0, 3, 0, 3));
    assert_eq!(failing(Task::serving("test-ends"), 2, || {}).await, 3);
    let counts = role("test-ends");
    assert_eq!((counts.running, counts.panics, counts.ends, counts.restarts), (0, 0, 2, 2));
    assert!(list().iter().all(|task| !task.name.starts_with("test-panics")), "ended tasks leave the list");
}

#[tokio::test(start_paused = true)]
async fn an_essential_task_that_keeps_failing_ends_the_process() {
    assert_eq!(failing(Task::essential("test-essential").of("7"), 99, || panic!("again")).await, 5);
    let reason = failure_of_the_process().await;
    assert_eq!(reason, "failure of task test-essential (7): panic: again");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_named_while_they_are_down_those_that_serving_needs_apart() {
    let stop = CancellationToken::new();
    let fail = || async { panic!("gone") };
    for task in [Task::restarted("test-helps"), Task::serving("test-serves").of("here")] {
        task.spawn(stop.clone(), fail);
    }
    let mut changes = changes();
    let of =
        |down: Vec<String>| down.into_iter().filter(|text| text.starts_with("test-")).collect::<Vec<_>>();
    let mine = || (of(down().0), of(down().1));
    while mine().0.is_empty() || mine().1.is_empty() {
        changes.changed().await.unwrap();
    }
    let (needed, others) = mine();
    assert_eq!(needed, ["test-serves here is down: panic: gone"]);
    assert!(others.contains(&"test-helps is down: panic: gone".to_owned()), "{others:?}");
    let shown = list().into_iter().find(|task| task.name == "test-serves").unwrap();
    assert_eq!((shown.policy, shown.failures > 0), (Policy::Serving, true));
    stop.cancel();
}

#[test]
fn pauses_double_up_to_a_bound() {
    let pauses: Vec<u128> = [1, 2, 3, 9, 10, 1000].map(|n| entry::pause(n).as_millis()).to_vec();
    assert_eq!(pauses, [100, 200, 400, 25_600, 30_000, 30_000]);
}

#[test]
fn a_thread_that_panics_is_restarted_in_place() {
    let (sender, received) = std::sync::mpsc::channel();
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = Arc::clone(&done);
    let mut starts = 0;
    let thread = Task::restarted("test-thread")
        .spawn_thread(
            "test-thread",
            move || stop.load(Ordering::Relaxed),
            move |_| {
                starts += 1;
                if starts < 3 {
                    panic!("start {starts}");
                }
                done.store(true, Ordering::Relaxed);
                sender.send(starts).unwrap();
            },
        )
        .unwrap();
    assert_eq!(received.recv(), Ok(3));
    thread.join().unwrap();
    let counts = role("test-thread");
    assert_eq!((counts.running, counts.panics, counts.restarts), (0, 2, 2));
}

#[tokio::test]
async fn a_panic_in_a_group_ends_one_task() {
    let group = Group::new("test-group");
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            group.spawn_local(async { panic!("one") }).await.unwrap();
            group.spawn(async {}).await.unwrap();
        })
        .await;
    let counts = role("test-group");
    assert_eq!((counts.running, counts.panics), (0, 1));
}
