mod events;
mod properties;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mixer_base::budget::Share;

use self::events::{Conduct, Event};
use super::*;
use crate::backlog::{DiskStep, Stored};
use crate::items::{Item, List};
use crate::settings::Batching;

/// An item with its number and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parcel(u64, usize);

impl Item for Parcel {
    fn size(&self) -> usize {
        self.1
    }
}

/// Parcels that arrive at once.
#[derive(Debug)]
struct Parcels(Vec<Parcel>);

impl Addition<List<Parcel>> for Parcels {
    fn items(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|parcel| parcel.1).sum()
    }

    fn growth(&self, _: &List<Parcel>) -> usize {
        self.bytes()
    }

    fn add_to(self, list: &mut List<Parcel>) {
        self.0.into_iter().for_each(|parcel| list.push(parcel));
    }
}

/// A disk, and its keeper.
struct Disk {
    /// Numbers and sizes of items.
    records: VecDeque<Vec<Parcel>>,
    takes: Duration,
    works: bool,
    room: usize,
    hand: List<Parcel>,
    doing: Keeping,
    /// Whether the next record that is read is damaged.
    is_damaged: bool,
    is_open: bool,
}

/// What the keeper of the model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    Sleeping,
    WaitingUntil(Instant),
    /// The step is done then.
    Working(DiskStep, Instant),
    Nothing,
}

impl Disk {
    fn new(room: usize) -> Self {
        Self {
            records: VecDeque::new(),
            takes: Duration::ZERO,
            works: true,
            room,
            hand: List::default(),
            doing: Keeping::Sleeping,
            is_damaged: false,
            is_open: true,
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.records.iter().flatten().map(|parcel| parcel.0)
    }

    fn items(&self) -> usize {
        self.records.iter().map(Vec::len).sum()
    }
}

/// What the courier of the model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Sleeping,
    Gathering(Instant),
    /// Waits before the next attempt.
    Pausing(Instant),
    /// The sink has the batch until then.
    Delivering(Instant),
}

/// A queue with a courier and a sink that move only when the clock is moved.
struct Stage {
    queue: Queue<List<Parcel>>,
    settings: Settings,
    batch: List<Parcel>,
    tally: Tally,
    now: Instant,
    doing: Doing,
    sink: (Duration, Conduct),
    disk: Option<Disk>,
    is_closing: bool,
    /// Whether the deadline of closing has passed.
    is_late: bool,
    /// How many items were delivered until it closed. A disk that opened late had older ones than those before.
    in_order: Option<usize>,
    /// Whether the courier is started by items that arrive after it has ended.
    restarts: bool,
    /// The first number of this process, and the next one.
    first_number: u64,
    next_number: u64,
    /// Items that an earlier process left on disk.
    recovered: u64,
    /// Their numbers: none of them may be lost, unless the sink or the disk loses it.
    promised: Vec<u64>,
    /// Numbers of items by what became of them, as the sink saw it.
    delivered: Vec<u64>,
    lost: Vec<u64>,
    dropped: Vec<u64>,
    /// Items that wait, in order.
    waiting: VecDeque<u64>,
    /// When the first item that waits was seen.
    seen: Option<Instant>,
}

impl Stage {
    /// With a disk that has room for so many items.
    fn with_disk(settings: Settings, room: usize) -> Self {
        Self::on_disk(settings, Disk::new(room), 0)
    }

    /// A process that finds this on disk. Its first item has this number.
    fn on_disk(settings: Settings, disk: Disk, first_number: u64) -> Self {
        let mut stage = Self::new(settings.clone(), true);
        stage.queue = Queue::new(settings, false).with_backlog();
        stage.restarts = false;
        (stage.first_number, stage.next_number) = (first_number, first_number);
        let is_open = disk.is_open;
        stage.promised = disk.numbers().collect();
        stage.disk = Some(Disk { is_open: false, ..disk });
        stage.start();
        if is_open {
            stage.open();
        } else {
            let signal = stage.queue.disk_not_open("in use".to_owned());
            stage.follow(signal);
        }
        stage.keep();
        stage
    }

    /// The directory is opened.
    fn open(&mut self) {
        let Some(disk) = self.disk.as_mut().filter(|disk| !disk.is_open) else { return };
        disk.is_open = true;
        let items = disk.items() as u64;
        self.recovered += items;
        if items > 0 && self.next_number > self.first_number {
            self.in_order = Some(0);
        }
        let signal = self.queue.recovered(items, items);
        self.follow(signal);
        self.keep();
    }

    /// Somebody removes the directory, which is made anew.
    fn remove_directory(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        if !disk.is_open || matches!(disk.doing, Keeping::Working(..)) {
            return;
        }
        let numbers: Vec<u64> = disk.numbers().collect();
        disk.records.clear();
        // The oldest record may be in memory.
        let (lost, signal) = self.queue.gone("removed".to_owned());
        self.lost.extend(&numbers[numbers.len() - lost as usize..]);
        self.promised.retain(|number| !numbers.contains(number));
        disk.is_open = false;
        self.follow(signal);
        self.open();
    }

    /// The process is killed: what is in memory is lost.
    fn kill(&mut self) {
        let Some(disk) = self.disk.take() else { return };
        let Disk { records, works, takes, is_open, room, .. } = disk;
        let disk = Disk { records, works, takes, is_open, ..Disk::new(room) };
        let memory = self.settings.memory.as_ref().map(|share| Arc::new(Share::new(share.limit())));
        let now = self.now;
        let sink = self.sink;
        let mut next = Self::on_disk(Settings { memory, ..self.settings.clone() }, disk, self.next_number);
        (next.now, next.sink) = (now, sink);
        *self = next;
    }

    fn new(settings: Settings, restarts: bool) -> Self {
        let mut stage = Self {
            queue: Queue::new(settings.clone(), restarts),
            settings,
            batch: List::default(),
            tally: Tally::default(),
            now: Instant::now(),
            doing: Doing::Nothing,
            sink: (Duration::ZERO, Conduct::Delivers),
            disk: None,
            is_closing: false,
            is_late: false,
            in_order: None,
            restarts,
            first_number: 0,
            next_number: 0,
            recovered: 0,
            promised: Vec::new(),
            delivered: Vec::new(),
            lost: Vec::new(),
            dropped: Vec::new(),
            waiting: VecDeque::new(),
            seen: None,
        };
        if !restarts {
            stage.start();
        }
        stage
    }

    fn start(&mut self) {
        if self.queue.started(&mut self.batch, &mut self.tally) {
            self.doing = Doing::Delivering(self.now + self.sink.0);
        } else {
            self.step();
        }
    }

    fn follow(&mut self, signal: Signal) {
        match signal {
            Signal::None => {}
            Signal::Wake => {
                assert!(!matches!(self.doing, Doing::Nothing | Doing::Delivering(_)), "{:?}", self.doing);
                self.step();
            }
            Signal::Start => {
                assert_eq!(self.doing, Doing::Nothing);
                assert!(self.restarts, "a task does not start again");
                self.start();
            }
            Signal::WakeKeeper => {
                let doing = self.disk.as_ref().map(|disk| disk.doing);
                assert!(matches!(doing, Some(Keeping::Sleeping | Keeping::WaitingUntil(_))), "{doing:?}");
                self.keep();
            }
        }
    }

    /// The keeper, if it waits, asks what to do.
    fn keep(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        if matches!(disk.doing, Keeping::Working(..) | Keeping::Nothing) {
            return;
        }
        let before = self.queue.waiting.len();
        let step = self.queue.next_disk_step(self.now, &mut disk.hand);
        let taken: Vec<u64> = self.waiting.drain(..before - self.queue.waiting.len()).collect();
        assert!(taken.is_empty() || disk.hand.iter().map(|parcel| parcel.0).eq(taken));
        disk.doing = match step {
            DiskStep::Sleep => Keeping::Sleeping,
            DiskStep::WaitUntil(at) => {
                assert!(at > self.now);
                Keeping::WaitingUntil(at)
            }
            DiskStep::End => Keeping::Nothing,
            work => Keeping::Working(work, self.now + disk.takes),
        };
    }

    /// The keeper is done with a step.
    fn finish_disk_step(&mut self, step: DiskStep) {
        let Some(disk) = &mut self.disk else { return };
        disk.doing = Keeping::Sleeping;
        let closed = self.queue.status().closed;
        let signal = match step {
            DiskStep::Store if !disk.works || !disk.is_open => {
                self.queue.stored(self.now, &mut disk.hand, Stored::Failed("broken".to_owned()))
            }
            DiskStep::Store if disk.items() + disk.hand.len() > disk.room => {
                self.queue.stored(self.now, &mut disk.hand, Stored::Full)
            }
            DiskStep::Store => {
                disk.records.push_back(disk.hand.iter().copied().collect());
                let bytes = disk.items() as u64;
                self.queue.stored(self.now, &mut disk.hand, Stored::Yes(bytes))
            }
            DiskStep::Load if !disk.works => {
                self.queue.disk_failed(self.now, "broken".to_owned());
                Signal::None
            }
            DiskStep::Load if std::mem::take(&mut disk.is_damaged) => {
                let record = disk.records.pop_front().unwrap();
                self.lost.extend(record.iter().map(|parcel| parcel.0));
                self.queue.unreadable(record.len() as u64, disk.items() as u64, "damaged".to_owned())
            }
            DiskStep::Load => {
                let mut batch = List::default();
                disk.records.front().unwrap().iter().for_each(|parcel| batch.push(*parcel));
                self.queue.loaded(batch)
            }
            DiskStep::Remove => {
                disk.records.pop_front().unwrap();
                self.queue.removed(disk.items() as u64, None)
            }
            DiskStep::Sleep | DiskStep::WaitUntil(_) | DiskStep::End => unreachable!(),
        };
        let is_dropped = self.queue.status().closed > closed;
        assert!(!is_dropped || self.is_late, "what the disk does not take is delivered until the deadline");
        self.drop_unfollowed();
        self.follow(signal);
        self.keep();
    }

    /// What cannot be written at the deadline is dropped, and what the sink has at the deadline; which items is not followed here.
    fn drop_unfollowed(&mut self) {
        let closed = self.queue.status().full + self.queue.status().closed - self.dropped.len() as u64;
        self.dropped.extend((0..closed).map(|_| u64::MAX));
    }

    fn hold(&mut self, size: usize) {
        let before = self.queue.status();
        match self.queue.accept_if_room(Parcel(self.next_number, size)) {
            Err(_) => assert_eq!(self.queue.status(), before),
            Ok(accepted) => {
                let number = self.next_number;
                self.next_number += 1;
                match accepted {
                    Ok(signal) => {
                        self.waiting.push_back(number);
                        self.follow(signal);
                    }
                    Err(why) => {
                        assert_eq!(why, NotAccepted::Closed);
                        self.dropped.push(number);
                    }
                }
            }
        }
    }

    /// The deadline of a courier in a task. A sink that it interrupts has done a part of its work.
    fn deadline(&mut self) {
        if self.restarts {
            return;
        }
        self.close();
        self.is_late = true;
        let mut refused: Vec<u64> = Vec::new();
        if matches!(self.doing, Doing::Delivering(_)) {
            let numbers: Vec<u64> = self.batch.as_slice().iter().map(|parcel| parcel.0).collect();
            let (removed, delivered) = match self.sink.1 {
                Conduct::TriesAgain(removed, delivered) | Conduct::Panics(removed, delivered) => {
                    (removed, delivered.min(removed))
                }
                Conduct::Half(part) => (0, part),
                Conduct::Delivers | Conduct::Fails => (0, 0),
            };
            let delivered = delivered.min(numbers.len());
            for _ in 0..removed {
                self.batch.pop();
            }
            self.tally.delivered(delivered);
            self.delivered.extend(&numbers[..delivered]);
            refused.extend(numbers.iter().take(removed).skip(delivered));
        }
        let failed = self.queue.status().failed;
        self.queue.abandon(&mut self.batch, &mut self.tally);
        // A record on disk is left there as a whole.
        if self.queue.status().failed > failed || self.disk.is_none() {
            self.lost.extend(refused);
        }
        assert!(self.batch.is_empty());
        self.doing = Doing::Nothing;
        if self.disk.is_none() {
            self.waiting.clear();
        }
        self.drop_unfollowed();
        self.keep();
    }

    fn arrive(&mut self, sizes: &[usize]) {
        let before = self.queue.status();
        let bytes: usize = sizes.iter().sum();
        let numbers = self.next_number..self.next_number + sizes.len() as u64;
        self.next_number = numbers.end;
        let parcels = numbers.clone().zip(sizes).map(|(number, size)| Parcel(number, *size)).collect();
        let memory = self
            .settings
            .memory
            .as_ref()
            .map_or(usize::MAX, |share| share.limit().saturating_sub(share.used()));
        let accepted = self.queue.accept(Parcels(parcels));
        let bounds = self.settings.bounds;
        let is_larger = bounds.takes_larger && bytes > bounds.bytes;
        let fits = before.queued + sizes.len() <= bounds.items
            && before.queued_bytes + bytes <= bounds.bytes
            && bytes <= memory;
        let after = self.queue.status();
        let dropped = (after.full - before.full) as usize;
        match accepted {
            Ok(signal) => {
                let drops = self.settings.when_full == WhenFull::DropOldest;
                assert!(fits || is_larger || drops, "{before:?} takes {sizes:?} beyond its bounds");
                assert!(dropped == 0 || !fits, "{before:?} drops for {sizes:?}");
                self.dropped.extend(self.waiting.drain(..dropped));
                self.waiting.extend(numbers);
                self.follow(signal);
            }
            Err(NotAccepted::Stopping) => unreachable!("nothing waits"),
            Err(NotAccepted::Closed) => self.dropped.extend(numbers),
            Err(NotAccepted::Full) => {
                assert!(!fits, "{before:?} has room for {sizes:?}");
                // Older items are dropped in vain only if the share belongs to others.
                assert_eq!(dropped, sizes.len());
                self.dropped.extend(numbers);
            }
        }
    }

    /// The courier asks what to do.
    fn step(&mut self) {
        if !self.batch.is_empty() {
            self.doing = match self.queue.next(self.now, &mut self.batch) {
                Step::End if self.disk.is_some() && self.is_closing => Doing::Nothing,
                // What it had is left to the disk, which does not take it in time, or comes back from there.
                Step::Sleep if self.disk.is_some() && self.is_closing => Doing::Sleeping,
                Step::Deliver => Doing::Delivering(self.now + self.sink.0),
                Step::WaitUntil(until) if until > self.now => Doing::Pausing(until),
                Step::LeaveUntil(until) if until > self.now && self.disk.is_some() => Doing::Pausing(until),
                step => panic!("{step:?} while a batch is to be tried again"),
            };
            if self.disk.is_some() {
                self.keep();
            }
            return;
        }
        let waiting = (self.queue.waiting.len(), self.queue.waiting.bytes());
        let Batching { items, bytes, wait } = self.settings.batching;
        let pause = self.queue.retry_at.filter(|at| self.now < *at);
        let seen = self.seen.take().filter(|_| waiting.0 > 0).unwrap_or(self.now);
        let is_due = self.disk.is_some()
            || waiting.0 > 0
                && (self.is_closing || waiting.0 >= items || waiting.1 >= bytes || self.now >= seen + wait);
        self.doing = match self.queue.next(self.now, &mut self.batch) {
            Step::Deliver => {
                assert!(is_due, "a batch before it is due");
                let fits = self.batch.len() <= items && self.batch.bytes() <= bytes;
                assert!(fits || self.batch.len() == 1, "{:?}", self.batch);
                let taken: Vec<u64> = self.waiting.drain(..waiting.0 - self.queue.waiting.len()).collect();
                let is_from_disk = self.disk.is_some() && taken.is_empty();
                assert!(is_from_disk || self.batch.iter().map(|parcel| parcel.0).eq(taken));
                self.keep();
                Doing::Delivering(self.now + self.sink.0)
            }
            Step::WaitUntil(until) if pause == Some(until) => {
                assert!(self.disk.is_some() || waiting.0 > 0);
                self.seen = Some(seen).filter(|_| waiting.0 > 0 && self.queue.since.is_some());
                Doing::Pausing(until)
            }
            Step::WaitUntil(until) => {
                assert!(self.disk.is_some() || !is_due && until > self.now && until == seen + wait);
                self.seen = Some(seen);
                Doing::Gathering(until)
            }
            Step::LeaveUntil(until) => {
                assert!(self.disk.is_some() && self.is_closing && until > self.now);
                Doing::Pausing(until)
            }
            Step::Sleep => {
                assert!(self.disk.is_some() || waiting.0 == 0 && !self.is_closing);
                Doing::Sleeping
            }
            Step::End => {
                assert!((self.disk.is_some() || waiting.0 == 0) && self.is_closing);
                Doing::Nothing
            }
        };
        if self.disk.is_some() {
            self.seen = None;
            self.keep();
        }
    }

    /// The sink is done with the batch.
    fn finish_batch(&mut self) {
        let numbers: Vec<u64> = self.batch.as_slice().iter().map(|parcel| parcel.0).collect();
        let all = numbers.len();
        let (removed, delivered, panics) = match self.sink.1 {
            Conduct::Delivers => (all, all, false),
            Conduct::Half(part) => (all, part.min(all), false),
            Conduct::Fails => (all, 0, false),
            Conduct::Panics(removed, delivered) => (removed.min(all), delivered.min(removed).min(all), true),
            Conduct::TriesAgain(removed, delivered) => {
                let (removed, delivered) = (removed.min(all), delivered.min(removed).min(all));
                (0..removed).for_each(|_| assert!(self.batch.pop().is_some()));
                self.tally.delivered(delivered);
                self.tally.try_again("out of reach");
                self.queue.completed(self.now, &mut self.batch, &mut self.tally);
                // What is left in the batch is tried again; all others are settled.
                self.resolve(&numbers[..all - self.batch.len()], delivered);
                return self.step();
            }
        };
        self.tally.delivered(delivered);
        if !panics {
            self.queue.completed(self.now, &mut self.batch, &mut self.tally);
            self.resolve(&numbers, delivered);
            return self.step();
        }
        for _ in 0..removed {
            self.batch.pop();
        }
        // Without progress, the whole batch is lost.
        let gone = if removed == 0 { &numbers[..] } else { &numbers[..removed] };
        self.resolve(gone, delivered);
        self.start();
    }

    fn resolve(&mut self, gone: &[u64], delivered: usize) {
        self.delivered.extend(&gone[..delivered]);
        self.lost.extend(&gone[delivered..]);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let of_courier = match self.doing {
                Doing::Gathering(at) | Doing::Pausing(at) | Doing::Delivering(at) => Some(at),
                Doing::Nothing | Doing::Sleeping => None,
            };
            let keeping = self.disk.as_ref().map_or(Keeping::Nothing, |disk| disk.doing);
            let of_keeper = match keeping {
                Keeping::WaitingUntil(at) | Keeping::Working(_, at) => Some(at),
                Keeping::Sleeping | Keeping::Nothing => None,
            };
            let Some(at) = of_courier.into_iter().chain(of_keeper).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            match (self.doing, keeping) {
                (_, Keeping::Working(step, when)) if when == at => self.finish_disk_step(step),
                (_, Keeping::WaitingUntil(when)) if when == at => self.keep(),
                (Doing::Delivering(_), _) => {
                    self.finish_batch();
                    self.keep();
                }
                _ => self.step(),
            }
            self.check();
        }
        self.now = end;
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrive(sizes) => self.arrive(&sizes),
            Event::Pass(millis) => self.pass(Duration::from_millis(millis)),
            Event::Sink(takes, conduct) => self.sink = (Duration::from_millis(takes), conduct),
            Event::Disk(takes, works, room) => {
                if let Some(disk) = &mut self.disk {
                    (disk.takes, disk.works, disk.room) = (Duration::from_millis(takes), works, room);
                }
            }
            Event::Hold(size) => self.hold(size),
            Event::Damage => {
                if let Some(disk) = &mut self.disk {
                    disk.is_damaged = true;
                }
            }
            Event::Open => self.open(),
            Event::Remove => self.remove_directory(),
            Event::Kill => self.kill(),
            Event::Close => self.close(),
            Event::Deadline => self.deadline(),
        }
        self.check();
    }

    fn close(&mut self) {
        self.is_closing = true;
        self.in_order.get_or_insert(self.delivered.len());
        let signal = self.queue.close();
        self.follow(signal);
        self.keep();
    }

    fn check(&self) {
        let status = self.queue.status();
        assert!(status.adds_up(), "{status:?}");
        assert_eq!(status.accepted, self.recovered + self.next_number - self.first_number);
        assert_eq!(status.delivered, self.delivered.len() as u64);
        assert_eq!(status.failed, self.lost.len() as u64);
        assert_eq!(status.full + status.closed, self.dropped.len() as u64);
        assert_eq!(status.queued, self.waiting.len());
        // While it closes, what the disk does not take comes before what is there.
        let in_order = &self.delivered[..self.in_order.unwrap_or(self.delivered.len())];
        let is_ordered = !self.promised.is_sorted() || in_order.is_sorted();
        assert!(is_ordered, "items are delivered in order: {:?}", self.delivered);
        let distinct: HashSet<u64> = self.delivered.iter().copied().collect();
        assert_eq!(distinct.len(), self.delivered.len(), "items are delivered once: {:?}", self.delivered);
        let bounds = self.settings.bounds;
        if !bounds.takes_larger {
            assert!(status.queued <= bounds.items && status.queued_bytes <= bounds.bytes, "{status:?}");
        }
        if let Some(share) = &self.settings.memory {
            assert_eq!(share.used(), self.queue.memory.acquired);
            assert!(self.disk.is_some() || share.used() == status.queued_bytes + self.batch.bytes());
            assert!(self.disk.is_some() || share.used() <= share.limit());
        }
    }
}

/// A full disk is freed by what is read from it.
#[test]
fn an_error_of_writing_does_not_hold_up_reading() {
    let batching = Batching { items: 1, ..Batching::default() };
    let mut queue = Queue::new(Settings { batching, ..Settings::default() }, false).with_backlog();
    let (now, mut hand, mut batch, mut tally) =
        (Instant::now(), List::default(), List::default(), Tally::default());
    queue.recovered(3, 300);
    for left in [2, 1, 0] {
        assert_eq!(
            queue.next_disk_step(now, &mut hand),
            DiskStep::Load,
            "{left} records are left after this one"
        );
        let mut record = List::default();
        record.push(Parcel(left, 1));
        queue.loaded(record);
        queue.accept(Parcels(vec![Parcel(10 + left, 1)])).unwrap();
        // It is tried at once, and then once a second.
        if left == 2 {
            assert_eq!(queue.next_disk_step(now, &mut hand), DiskStep::Store);
            queue.stored(now, &mut hand, Stored::Failed("No space left on device".to_owned()));
        }
        assert_eq!(queue.next_disk_step(now, &mut hand), DiskStep::WaitUntil(now + Duration::from_secs(1)));
        assert_eq!(queue.next(now, &mut batch), Step::Deliver);
        tally.delivered(1);
        queue.completed(now, &mut batch, &mut tally);
        assert_eq!(queue.next_disk_step(now, &mut hand), DiskStep::Remove);
        queue.removed(100 * left, None);
    }
    assert!(queue.status().adds_up());
    assert_eq!(queue.status().delivered, 3);
}
