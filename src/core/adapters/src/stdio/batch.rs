//! The lines of one or more reports.

use mixer_base::rotate::CHEAP_WRITE;

/// Memory kept between batches.
const KEPT: usize = 1 << 20;

/// Lines in one buffer.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.reuse();
        self.bytes.shrink_to(KEPT);
    }

    /// Removes all lines and keeps the memory.
    pub(super) fn reuse(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The buffer to append a line to.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn end_line(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Bytes of all lines.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends the lines of another batch.
    pub(super) fn append(&mut self, other: &Batch) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }

    /// Whole lines in chunks of at most [`CHEAP_WRITE`] bytes, or of one line if it is longer, each with its number of lines.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (&[u8], usize)> {
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

    /// Number of lines.
    pub(super) fn line_count(&self) -> usize {
        self.ends.len()
    }

    /// Each line with its line feed.
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_lines() {
        let mut batch = Batch::default();
        let lengths = [1, CHEAP_WRITE - 1, 1, CHEAP_WRITE, CHEAP_WRITE + 5, 10, 10];
        for length in lengths {
            batch.bytes().extend(std::iter::repeat_n(b'x', length));
            batch.end_line();
        }
        let chunks: Vec<(usize, usize)> = batch.chunks().map(|(bytes, lines)| (bytes.len(), lines)).collect();
        assert_eq!(chunks, [(CHEAP_WRITE, 2), (1, 1), (CHEAP_WRITE, 1), (CHEAP_WRITE + 5, 1), (20, 2)]);
        assert_eq!(Batch::default().chunks().count(), 0);
    }
}
