//! The lines of one or more reports: of a file, or of datagrams.

use mixer_base::rotate::CHEAP_WRITE;
use mixer_delivery::{Addition, Items};

/// Memory kept between batches. A queue under load holds more than half of it: growing from less costs a page fault every 4 KiB.
const KEPT: usize = 1 << 20;
/// Bytes of a line for which the memory of its end is kept.
const KEPT_PER_LINE: usize = 64;

/// The part of a queue that is dropped at once, for newer lines: a sixteenth.
const DROPPED_PART: usize = 16;

/// Memory by which a batch grows.
#[derive(Debug, Clone, Copy)]
struct Growth {
    bytes: usize,
    ends: usize,
}

impl Growth {
    /// Its size in bytes.
    fn size(self) -> usize {
        self.bytes + self.ends * size_of::<usize>()
    }
}

/// Lines in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Lines {
    /// The buffer to append a line to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a line.
    pub(crate) fn end_line(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// The memory that [`append`](Self::append) needs besides what the batch has; by at least half of that, so that appending stays linear.
    fn growth(&self, other: &Lines) -> Growth {
        let of = |length: usize, more: usize, capacity: usize| match (length + more).checked_sub(capacity) {
            None | Some(0) => 0,
            Some(missing) => missing.max(capacity / 2),
        };
        Growth {
            bytes: of(self.bytes.len(), other.bytes.len(), self.bytes.capacity()),
            ends: of(self.ends.len(), other.ends.len(), self.ends.capacity()),
        }
    }

    /// Allocates memory.
    fn grow(&mut self, growth: Growth) {
        self.bytes.reserve_exact(self.bytes.capacity() - self.bytes.len() + growth.bytes);
        self.ends.reserve_exact(self.ends.capacity() - self.ends.len() + growth.ends);
    }

    /// Appends the lines of another batch.
    fn append(&mut self, other: &Lines) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }

    /// A copy for lines that wait.
    pub(crate) fn to_owned_lines(&self) -> Kept {
        Kept(Self { bytes: self.bytes.clone(), ends: self.ends.clone() })
    }

    /// Removes the first lines.
    pub(crate) fn remove_first(&mut self, lines: usize) {
        let lines = lines.min(self.ends.len());
        let Some(end) = lines.checked_sub(1).and_then(|last| self.ends.get(last).copied()) else { return };
        self.bytes.drain(..end);
        self.ends.drain(..lines);
        self.ends.iter_mut().for_each(|of| *of -= end);
    }

    /// Whole lines in chunks of at most [`CHEAP_WRITE`] bytes, or of one line if it is longer, each with its number of lines.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let (mut start, mut first) = (0, 0);
        std::iter::from_fn(move || {
            let rest = self.ends.get(first..).unwrap_or_default();
            let fitting = rest.iter().take_while(|end| **end - start <= CHEAP_WRITE).count();
            let lines = fitting.max(1);
            let end = *rest.get(lines - 1)?;
            let chunk = self.bytes.get(start..end)?;
            (start, first) = (end, first + lines);
            Some((chunk, lines))
        })
    }

    /// Each line, as it was appended.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }
}

/// Lines are counted one by one, and written all at once.
impl Items for Lines {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    fn move_front(&mut self, batch: &mut Self, _: usize, _: usize) {
        std::mem::swap(self, batch);
    }

    /// At least one in [`DROPPED_PART`] bytes, because what remains is moved.
    fn drop_front(&mut self, bytes: usize) -> usize {
        let enough = bytes.max(self.bytes.len() / DROPPED_PART);
        let before = self.ends.partition_point(|end| *end < enough);
        let dropped = (before + 1).min(self.ends.len());
        self.remove_first(dropped);
        dropped
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn shrink(&mut self) {
        self.bytes.shrink_to(KEPT);
        self.ends.shrink_to(KEPT / KEPT_PER_LINE);
    }
}

/// Lines of a report that wait for room.
pub(crate) struct Kept(Lines);

impl Addition<Lines> for Kept {
    fn items(&self) -> usize {
        (&self.0).items()
    }

    fn bytes(&self) -> usize {
        Addition::bytes(&&self.0)
    }

    fn growth(&self, batch: &Lines) -> usize {
        Addition::growth(&&self.0, batch)
    }

    fn add_to(self, batch: &mut Lines) {
        (&self.0).add_to(batch);
    }
}

/// The lines of a report, which stay in its buffer as well.
impl Addition<Lines> for &Lines {
    fn items(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn growth(&self, batch: &Lines) -> usize {
        batch.growth(self).size()
    }

    fn add_to(self, batch: &mut Lines) {
        let growth = batch.growth(self);
        batch.grow(growth);
        batch.append(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_lines() {
        let mut batch = Lines::default();
        let lengths = [1, CHEAP_WRITE - 1, 1, CHEAP_WRITE, CHEAP_WRITE + 5, 10, 10];
        for length in lengths {
            batch.buffer().extend(std::iter::repeat_n(b'x', length));
            batch.end_line();
        }
        let chunks: Vec<(usize, usize)> = batch.chunks().map(|(bytes, lines)| (bytes.len(), lines)).collect();
        assert_eq!(chunks, [(CHEAP_WRITE, 2), (1, 1), (CHEAP_WRITE, 1), (CHEAP_WRITE + 5, 1), (20, 2)]);
        assert_eq!(Lines::default().chunks().count(), 0);
    }

    #[test]
    fn the_first_lines_can_be_removed() {
        for removed in 0..5 {
            let mut lines = Lines::default();
            for line in ["a", "bcd", "", "ef"] {
                lines.buffer().extend_from_slice(line.as_bytes());
                lines.end_line();
            }
            lines.remove_first(removed);
            let left: Vec<&[u8]> = lines.lines().collect();
            let expected: Vec<&[u8]> = [&b"a"[..], b"bcd", b"", b"ef"].into_iter().skip(removed).collect();
            assert_eq!((left, lines.bytes()), (expected.clone(), expected.concat().len()), "{removed}");
        }
    }
}
