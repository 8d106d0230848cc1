#[cfg(any(
    feature = "adapter-cloudwatch",
    feature = "adapter-dogstatsd",
    feature = "adapter-fluentd",
    feature = "adapter-otlp",
    feature = "adapter-servicecontrol",
    feature = "adapter-signalfx",
    feature = "adapter-solarwinds",
    feature = "adapter-stackdriver",
    feature = "adapter-statsd",
    feature = "adapter-zipkin"
))]
mod adapters;

use std::sync::Arc;
use std::time::Duration;

use mixer_delivery::{AsyncSink, Batching, Bounds, Delivery, Items as _, Settings, Tally};

use super::*;
use crate::lines::Lines;

/// Never takes anything, until it is told to.
struct Closed(Arc<tokio::sync::Notify>, Arc<parking_lot::Mutex<Vec<String>>>);

impl AsyncSink<Lines> for Closed {
    async fn deliver(&mut self, batch: &mut Lines, tally: &mut Tally) {
        self.0.notified().await;
        self.0.notify_one();
        let text = |line: &[u8]| String::from_utf8_lossy(line).trim().to_owned();
        self.1.lock().extend(batch.lines().map(text));
        tally.delivered(batch.len());
    }
}

fn line(number: usize) -> Lines {
    let mut lines = Lines::default();
    lines.buffer().extend_from_slice(format!("{number:>10}").as_bytes());
    lines.end_line();
    lines
}

/// Lines of statsd, dogstatsd and stdio: which of them arrive.
#[tokio::test]
async fn the_oldest_lines_are_dropped_and_those_that_wait_arrive_in_the_end() {
    for (when_full, last) in [(WhenFull::DropNewest, 9), (WhenFull::DropOldest, 14), (WhenFull::Hold, 14)] {
        let (open, arrived) = (Arc::new(tokio::sync::Notify::new()), Arc::default());
        let settings = Settings {
            bounds: Bounds { items: usize::MAX, bytes: 90, takes_larger: false },
            when_full: when_full.with(SignedDuration::from_secs(60)),
            batching: Batching { items: 1, ..Batching::default() },
            ..Settings::default()
        };
        let sink = Closed(Arc::clone(&open), Arc::clone(&arrived));
        let delivery = Arc::new(Delivery::in_task("lines", "", settings, sink));
        // One is in flight, nine wait, and five have no room.
        let mut handover = Handover::default();
        for number in 0..15 {
            handover.add(delivery.hand_over_all(&line(number), Lines::to_owned_lines));
            while delivery.status().in_flight == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert!(delivery.status().queued_bytes <= 90);
        open.notify_one();
        let dropped = match handover.reply(|dropped| Err(HandlerError::new(dropped.to_string()))) {
            Reply::Ready(dropped) => dropped,
            Reply::Later(later) => later.await,
        };
        assert!(delivery.close(Duration::from_secs(60)).await);
        let arrived: Vec<usize> = arrived.lock().iter().map(|line| line.parse().unwrap()).collect();
        let (lost, newest) = (15 - arrived.len(), arrived.iter().max().copied());
        assert_eq!((arrived.first(), newest), (Some(&0), Some(last)), "{when_full:?}: {arrived:?}");
        let expected = match when_full {
            // The new ones were accepted.
            WhenFull::DropOldest => (5, "0"),
            WhenFull::DropNewest => (5, "5"),
            WhenFull::Hold => (0, "0"),
        };
        assert_eq!((lost, dropped.unwrap_err().message.as_str()), expected, "{when_full:?}: {arrived:?}");
        assert!(delivery.status().adds_up());
    }
}

#[test]
fn a_directory_that_takes_nothing_or_moves_is_told() {
    for (directory, megabytes, fields) in [
        ("/var/lib/mixer", 1, &[][..]),
        ("", 0, &[][..]),
        ("spill", 1, &["spillDirectory"][..]),
        ("/var/lib/mixer", 0, &["spillMegabytes"][..]),
        ("spill", 0, &["spillDirectory", "spillMegabytes"][..]),
    ] {
        let mut problems = Diagnostics::new();
        validate_spill(directory, megabytes, &mut problems);
        let told: Vec<_> =
            problems.iter().map(|problem| problem.message.split(':').next().unwrap()).collect();
        assert_eq!(told, fields, "{directory:?} {megabytes}");
    }
}
