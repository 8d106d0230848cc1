//! Buffers of long messages, in pages of their own.
//!
//! A buffer of megabytes that grows in the heap is copied whenever it outgrows its place, and each page that it touches for the first time
//! costs a page fault: a message of 8 MB held the calls beside it up for 2.5 ms at a time. These buffers grow by moving pages, and the last
//! ones that were freed are used again, pages and all.

use std::ptr::NonNull;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// Most bytes of free buffers that wait for their next use.
const KEPT: usize = 32 << 20;
/// Least size of a buffer, in bytes.
const LEAST: usize = 2 << 20;
/// Sizes are multiples of it, in bytes.
const UNIT: usize = 64 << 10;

static FREE: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

/// Bytes that are appended to, for messages of megabytes. Dropping it keeps its pages for the next one, up to 32 MiB in the process.
pub struct Pages {
    /// `None` once it was dropped.
    mapping: Option<Mapping>,
    length: usize,
}

/// Memory that belongs to the value and is initialized: with zeros, or with what was appended before.
struct Mapping {
    start: NonNull<u8>,
    size: usize,
}

#[expect(unsafe_code, reason = "a mapping is not tied to a thread")]
// SAFETY: a mapping owns its memory; access is through references to it.
unsafe impl Send for Mapping {}
#[expect(unsafe_code, reason = "a mapping is not tied to a thread")]
// SAFETY: as above; nothing changes behind a shared reference.
unsafe impl Sync for Mapping {}

impl Pages {
    /// An empty buffer. Errors: no address space is left.
    pub fn new() -> Result<Self, Errno> {
        let kept = FREE.lock().pop();
        Ok(Self { mapping: Some(kept.map_or_else(|| Mapping::new(LEAST), Ok)?), length: 0 })
    }

    /// Appends; the size doubles when it does not suffice, up to `most` bytes as long as they suffice.
    ///
    /// Errors: no address space is left. The buffer is as it was.
    pub fn append(&mut self, bytes: &[u8], most: usize) -> Result<(), Errno> {
        let Some(mapping) = &mut self.mapping else { return Err(Errno::NOMEM) };
        let needed = self.length.checked_add(bytes.len()).ok_or(Errno::NOMEM)?;
        if needed > mapping.size {
            mapping.grow(needed.max(most.min(mapping.size.saturating_mul(2))))?;
        }
        if let Some(place) = mapping.bytes_mut().get_mut(self.length..needed) {
            place.copy_from_slice(bytes);
        }
        self.length = needed;
        Ok(())
    }

    /// Bytes that fit without growing.
    pub fn capacity(&self) -> usize {
        self.mapping.as_ref().map_or(0, |mapping| mapping.size)
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.mapping.as_ref().and_then(|mapping| mapping.bytes().get(..self.length)).unwrap_or_default()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        let mut free = FREE.lock();
        let kept: usize = free.iter().map(|mapping| mapping.size).sum();
        if kept + mapping.size <= KEPT {
            free.push(mapping);
        }
    }
}

/// Returns the pages of free buffers to the system.
pub(crate) fn release() {
    let free = std::mem::take(&mut *FREE.lock());
    drop(free);
}

impl Mapping {
    fn new(size: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        #[expect(unsafe_code, reason = "the standard library has no anonymous mappings")]
        // SAFETY: the system chooses an address that nothing else has.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), size, access, MapFlags::PRIVATE) }?;
        NonNull::new(start.cast()).map(|start| Self { start, size }).ok_or(Errno::NOMEM)
    }

    /// Errors: no address space is left; the mapping is as it was.
    fn grow(&mut self, size: usize) -> Result<(), Errno> {
        let size = size.checked_next_multiple_of(UNIT).ok_or(Errno::NOMEM)?;
        #[expect(unsafe_code, reason = "the standard library has no anonymous mappings")]
        // SAFETY: the mapping is ours and as long as it says, and `&mut self` says that nobody refers into it.
        let start = unsafe { mremap(self.start.as_ptr().cast(), self.size, size, MremapFlags::MAYMOVE) }?;
        self.start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        self.size = size;
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "a mapping is a pointer and a length")]
        // SAFETY: the mapping is readable, as long as it says, initialized, and borrowed as `self` is.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.size)
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        #[expect(unsafe_code, reason = "a mapping is a pointer and a length")]
        // SAFETY: as above, and writable; `&mut self` says that nobody else refers into it.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the standard library has no anonymous mappings")]
        // SAFETY: the mapping is ours, and nobody refers into it any more. It fails for no mapping that exists.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_there() {
        let mut pages = Pages::new().unwrap();
        assert_eq!(pages.as_ref(), b"");
        let part: Vec<u8> = (0..100_003).map(|i| (i % 251) as u8).collect();
        let mut all = Vec::new();
        while all.len() < 9 << 20 {
            pages.append(&part, 8 << 20).unwrap();
            all.extend_from_slice(&part);
        }
        assert!(pages.as_ref() == all);
        assert!(pages.capacity() < all.len() + UNIT, "it grows no further than needed above `most`");
        drop(pages);
        // Others may have taken it.
        let again = Pages::new().unwrap();
        assert_eq!(again.as_ref(), b"", "nothing of the last message shows");
        assert_eq!(size_of_val(again.as_ref()), 0);
    }

    #[test]
    fn free_buffers_are_bounded() {
        let many: Vec<Pages> = (0..40).map(|_| Pages::new().unwrap()).collect();
        drop(many);
        let kept = || FREE.lock().iter().map(|mapping| mapping.size).sum::<usize>();
        assert!(kept() <= KEPT, "{}", kept());
        release();
    }

    #[test]
    fn a_size_that_cannot_be_is_an_error() {
        let mut pages = Pages::new().unwrap();
        pages.append(b"kept", 0).unwrap();
        let mapping = pages.mapping.as_mut().unwrap();
        assert!(mapping.grow(1 << 60).is_err());
        assert!(mapping.grow(usize::MAX).is_err());
        assert_eq!(pages.as_ref(), b"kept");
    }
}
