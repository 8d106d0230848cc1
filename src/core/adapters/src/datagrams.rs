//! Lines that are sent in datagrams, for statsd and what resembles it.

use std::sync::Arc;
use std::time::Duration;

use mixer_base::budget::{MemoryBudget, Purpose};
use mixer_delivery::{
    AsyncSink, Batching, Bounds, Delivery, Holds, Items as _, Retry, Settings, Tally, WhenFull,
};
use mixer_engine::adapter::{BuildError, Env, HandlerError, HandlerStatus, QueueStatus};
use mixer_remote::{Answer, DatagramTarget};

use crate::address;
use crate::full::Handover;
use crate::lines::Lines;
use crate::outage::Outage;

/// Bytes at which lines are sent before their time, so that a burst does not wait.
const ENOUGH: usize = 16 << 10;
/// What is tried again, and how: a name that is not resolved, a receiver that has refused.
const RETRY: Retry = Retry {
    first_pause: Duration::from_millis(100),
    longest_pause: Duration::from_secs(5),
    budget: Duration::from_secs(10),
    breaker_failures: 5,
};

/// How lines are joined to datagrams. A longer line is sent alone, as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packing {
    /// Lines in a datagram at most.
    pub(crate) lines: usize,
    /// Bytes of a datagram of several lines at most, with the line feeds between them.
    pub(crate) bytes: usize,
}

/// Where lines go, and when.
pub(crate) struct DatagramOptions<'o> {
    /// The name of the delivery.
    pub(crate) task: &'static str,
    /// `HOST:PORT`.
    pub(crate) address: &'o str,
    pub(crate) packing: Packing,
    /// How long a line waits for others.
    pub(crate) wait: Duration,
    /// Bytes of the queue.
    pub(crate) queue: usize,
    pub(crate) when_full: WhenFull,
}

/// A queue of lines on their way to a receiver of datagrams. No report fails because of it, and none waits unless the parameters say so.
pub(crate) struct Datagrams {
    delivery: Arc<Delivery<Lines>>,
    queue: usize,
}

impl Datagrams {
    /// Starts a queue. The name of the receiver is resolved when the first lines are sent. Errors: an invalid address.
    pub(crate) fn start(options: DatagramOptions<'_>, env: &Env) -> Result<Self, BuildError> {
        let DatagramOptions { task, address, packing, wait, queue, when_full } = options;
        let target = DatagramTarget::new(address::dialed(address))
            .map_err(|error| BuildError::Refused(error.to_string()))?;
        let memory = env.commons.get::<MemoryBudget>();
        let settings = Settings {
            // A report larger than the queue is accepted while the queue is empty.
            bounds: Bounds { items: usize::MAX, bytes: queue, takes_larger: true },
            memory: Some(Arc::clone(memory.share(Purpose::Queues))),
            when_full,
            batching: Batching { items: usize::MAX, bytes: ENOUGH.min(queue / 4), wait },
            retry: RETRY,
            holds: Holds::clone(&env.commons.get::<Holds>()),
            ..Settings::default()
        };
        let outage = Outage::new(&env.handler_name);
        let sink = Sender { target, packing, datagram: Vec::new(), outage };
        Ok(Self { delivery: Arc::new(Delivery::in_task(task, &*env.handler_name, settings, sink)), queue })
    }

    /// Hands over all lines of a report. Those that are dropped are counted by the delivery.
    pub(crate) fn send(&self, lines: &Lines) -> Handover {
        let mut handover = Handover::default();
        if !lines.is_empty() {
            handover.add(self.delivery.hand_over_all(lines, Lines::to_owned_lines));
        }
        handover
    }

    /// The queue, and why lines do not arrive.
    pub(crate) fn status(&self) -> HandlerStatus {
        let status = self.delivery.status();
        let queue = QueueStatus {
            name: "bytes to be sent".to_owned(),
            length: status.queued_bytes,
            capacity: self.queue,
            dropped: status.full,
        };
        HandlerStatus { trouble: self.delivery.trouble(), queues: vec![queue], ..HandlerStatus::default() }
    }

    /// Sends what waits, within `deadline`.
    pub(crate) async fn close(&self, deadline: Duration) -> Result<(), HandlerError> {
        match self.delivery.close(deadline).await {
            true => Ok(()),
            false => Err(HandlerError::new("lines were not sent before the deadline")),
        }
    }
}

/// Sends lines.
struct Sender {
    target: DatagramTarget,
    packing: Packing,
    datagram: Vec<u8>,
    outage: Outage,
}

impl AsyncSink<Lines> for Sender {
    async fn deliver(&mut self, batch: &mut Lines, tally: &mut Tally) {
        let mut sent = 0;
        let mut refused = None;
        let mut again = None;
        {
            let mut lines = batch.lines().peekable();
            while again.is_none() && lines.peek().is_some() {
                let joined = join(&mut self.datagram, &mut lines, self.packing);
                match self.target.send(&self.datagram).await {
                    Answer::Delivered => tally.delivered(joined),
                    Answer::Refused(why) => refused = Some(why),
                    Answer::Retry { why, after } => {
                        again = Some((why, after));
                        continue;
                    }
                }
                sent += joined;
            }
        }
        if let Some((why, after)) = again {
            self.outage.failed(&why);
            batch.remove_first(sent);
            tally.try_again_after(why, after);
        } else if let Some(why) = refused {
            self.outage.failed(&why);
            tally.give_up(why);
        } else {
            self.outage.ended();
        }
    }
}

/// Writes the next lines, at least one, to `datagram`. Returns their number.
fn join<'l>(
    datagram: &mut Vec<u8>,
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'l [u8]>>,
    packing: Packing,
) -> usize {
    datagram.clear();
    let mut joined = 0;
    while let Some(line) = lines.next_if(|line| {
        joined == 0 || joined < packing.lines && datagram.len() + 1 + line.len() <= packing.bytes
    }) {
        if joined > 0 {
            datagram.push(b'\n');
        }
        datagram.extend_from_slice(line);
        joined += 1;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_env;
    use tokio::net::UdpSocket;

    fn lines(all: &[&str]) -> Lines {
        let mut lines = Lines::default();
        for line in all {
            lines.buffer().extend_from_slice(line.as_bytes());
            lines.end_line();
        }
        lines
    }

    #[test]
    fn lines_are_joined_up_to_the_limits() {
        for (packing, datagrams) in [
            (Packing { lines: 9, bytes: 7 }, &["aaa\nbbb", "c", "longer", "d\ne"][..]),
            (Packing { lines: 9, bytes: 9 }, &["aaa\nbbb\nc", "longer\nd", "e"]),
            (Packing { lines: 2, bytes: 99 }, &["aaa\nbbb", "c\nlonger", "d\ne"]),
            (Packing { lines: 1, bytes: 99 }, &["aaa", "bbb", "c", "longer", "d", "e"]),
            (Packing { lines: 0, bytes: 0 }, &["aaa", "bbb", "c", "longer", "d", "e"]),
        ] {
            let lines = lines(&["aaa", "bbb", "c", "longer", "d", "e"]);
            let mut rest = lines.lines().peekable();
            let mut datagram = Vec::new();
            let mut found = Vec::new();
            while rest.peek().is_some() {
                join(&mut datagram, &mut rest, packing);
                found.push(String::from_utf8(datagram.clone()).unwrap());
            }
            assert_eq!(found, datagrams, "{packing:?}");
        }
    }

    fn start(address: &str, env: &Env) -> Datagrams {
        let options = DatagramOptions {
            task: "datagram test",
            address,
            packing: Packing { lines: 9, bytes: 512 },
            wait: Duration::from_millis(1),
            queue: 1 << 20,
            when_full: WhenFull::DropNewest,
        };
        Datagrams::start(options, env).unwrap()
    }

    #[tokio::test]
    async fn what_waits_is_sent_before_the_handler_is_closed() {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let datagrams = start(&receiver.local_addr().unwrap().to_string(), &test_env("h.istio-system"));
        datagrams.send(&lines(&["a:1|c", "b:2|g"]));
        datagrams.close(Duration::from_secs(60)).await.unwrap();
        let mut buffer = [0; 100];
        let length = receiver.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"a:1|c\nb:2|g");
        assert_eq!(datagrams.delivery.status().delivered, 2);
        datagrams.send(&lines(&["late:1|c"]));
        let status = datagrams.delivery.status();
        assert!(status.closed == 1 && status.adds_up(), "{status:?}");
    }

    #[tokio::test]
    async fn a_receiver_without_an_address_drops_and_counts() {
        let datagrams = start("no-such-host.invalid:8125", &test_env("h.istio-system"));
        datagrams.send(&lines(&["a:1|c"]));
        while datagrams.status().trouble.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Nothing is sent until the name is resolved, and the queue does not grow beyond its bound.
        let long = "x".repeat(100_000);
        for _ in 0..30 {
            datagrams.send(&lines(&[&long]));
        }
        let status = datagrams.status();
        assert!(status.queues[0].dropped >= 19 && status.queues[0].length <= 1 << 20, "{status:?}");
        assert!(datagrams.close(Duration::from_millis(1)).await.is_err());
        let status = datagrams.delivery.status();
        assert!(status.adds_up() && status.waiting() == 0, "{status:?}");
    }

    #[tokio::test]
    async fn a_line_that_no_network_takes_is_lost_alone() {
        let receiver = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let datagrams = start(&receiver.local_addr().unwrap().to_string(), &test_env("h.istio-system"));
        let long = "x".repeat(70_000);
        datagrams.send(&lines(&["a:1|c", &long, "b:1|c"]));
        datagrams.close(Duration::from_secs(60)).await.unwrap();
        let status = datagrams.delivery.status();
        assert_eq!((status.delivered, status.failed), (2, 1));
        assert!(
            status.adds_up() && datagrams.status().trouble.is_some_and(|why| why.contains("70000 bytes"))
        );
    }
}
