//! What the log says of items that are left at the end.

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

/// Keeps the texts of records.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Told {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Closes a delivery. Returns what the log says.
async fn told(delivery: &Delivery<List<Parcel>>) -> Vec<String> {
    let told = Told::default();
    let _guard = tracing::subscriber::set_default(told.clone());
    // With one subscriber, threads without it decide for all what nobody wants to know.
    let _another = tracing::Dispatch::new(Told::default());
    assert!(!delivery.close(Duration::from_millis(50)).await);
    told.0.lock().clone()
}

/// Fails, or hangs.
struct Left(bool);

impl AsyncSink<List<Parcel>> for Left {
    async fn deliver(&mut self, _: &mut List<Parcel>, tally: &mut Tally) {
        match self.0 {
            true => tally.try_again("connection refused"),
            false => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn what_is_lost_is_told_with_the_occasion_and_the_reason() {
    for (detail, is_stop, fails, text) in [
        ("h.ns", true, true, "at the stop: connection refused"),
        ("h.ns", false, true, "when their handler was replaced or removed: connection refused"),
        ("h.ns", false, false, "when their handler was replaced or removed: there was no more time"),
        ("", false, false, "at the stop: there was no more time"),
    ] {
        let holds = Holds::default();
        let retry = Retry { budget: Duration::MAX, ..Retry::default() };
        let settings = Settings { retry, holds: holds.clone(), ..Settings::default() };
        let delivery = Delivery::in_task("told", detail, settings, Left(fails));
        (0..3).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
        if is_stop {
            holds.end();
        }
        assert_eq!(told(&delivery).await, [format!("3 items were neither delivered nor kept {text}")]);
        assert_adds_up(&delivery);
    }
}

/// As lines for a standard output that nobody reads.
#[tokio::test]
async fn what_a_thread_has_not_written_is_told() {
    let (delivery, open, _) = gated(Settings::default());
    (0..3).for_each(|item| delivery.accept(Parcel(item, 1)).unwrap());
    assert_eq!(told(&delivery).await, ["3 items still wait, and there is no more time for closing"]);
    drop(open);
    assert!(delivery.close(PATIENCE).await);
    assert_eq!(delivery.status().delivered, 3);
}
