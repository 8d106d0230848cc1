//! Function names for addresses of this process, from the symbol tables of the mapped ELF files.
//!
//! Debug information also has lines and inlined calls, but reading it takes seconds and more memory than the server. The tables are
//! read in chunks, and only the requested symbols are kept.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a symbol table entry.
const SYMBOL: usize = 24;
/// Bytes of a section header.
const SECTION: usize = 64;
/// Bytes of a program header.
const SEGMENT: usize = 56;
/// Symbols per read.
const CHUNK: usize = 4096;
/// Maximum length of a symbol name in bytes.
const MAX_NAME: usize = 4096;

/// The name for each address: the function, else the file, else the address itself.
pub(super) fn names(addresses: impl Iterator<Item = usize>) -> HashMap<usize, String> {
    let addresses: BTreeSet<usize> = addresses.collect();
    let mut names: HashMap<usize, String> = addresses.iter().map(|at| (*at, format!("{at:#x}"))).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = std::env::current_exe().ok();
    let mut files: HashMap<&str, Vec<(u64, usize)>> = HashMap::new();
    for mapping in maps.lines().filter_map(Mapping::parse) {
        let inside = addresses.range(mapping.start..mapping.end);
        let wanted = inside.map(|at| ((at - mapping.start) as u64 + mapping.offset, *at));
        files.entry(mapping.path).or_default().extend(wanted);
    }
    for (path, wanted) in files.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
        let short =
            Path::new(path).file_name().map_or_else(|| path.to_owned(), |n| n.to_string_lossy().into());
        names.extend(wanted.iter().map(|(_, at)| (*at, short.clone())));
        // The executable may have been replaced since.
        let is_own = own.as_deref().is_some_and(|own| own == Path::new(path));
        let path = if is_own { PathBuf::from("/proc/self/exe") } else { PathBuf::from(path) };
        let found = File::open(path).ok().and_then(|file| Elf::read(file)?.functions(&wanted));
        names.extend(found.unwrap_or_default());
    }
    names
}

/// An executable mapping of a file.
struct Mapping<'m> {
    start: usize,
    end: usize,
    offset: u64,
    path: &'m str,
}

impl<'m> Mapping<'m> {
    /// Reads a line of `/proc/self/maps`; `None` unless it is an executable mapping of a file.
    fn parse(line: &'m str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let path = words.nth(2)?.trim_start();
        let address = |text| usize::from_str_radix(text, 16).ok();
        (is_code && path.starts_with('/')).then_some(Self {
            start: address(start)?,
            end: address(end)?,
            offset,
            path,
        })
    }
}

/// A 64-bit little-endian ELF file.
struct Elf {
    file: File,
    header: Vec<u8>,
}

impl Elf {
    fn read(file: File) -> Option<Self> {
        let header = bytes_at(&file, 0, 64)?;
        header.starts_with(b"\x7fELF\x02\x01").then_some(Self { file, header })
    }

    /// The headers of one of the two tables in the file header.
    fn table(&self, offset: usize, count: usize, size: usize) -> Option<Vec<Vec<u8>>> {
        let offset = number(&self.header, offset, 8)?;
        let count = number(&self.header, count, 2)?;
        (0..count).map(|index| bytes_at(&self.file, offset + index * size as u64, size)).collect()
    }

    /// Function names for file offsets; each comes with its address.
    fn functions(&self, wanted: &[(u64, usize)]) -> Option<HashMap<usize, String>> {
        let segments = self.table(32, 56, SEGMENT)?;
        let mut at: Vec<(u64, usize)> = wanted
            .iter()
            .filter_map(|(offset, address)| {
                segments.iter().find_map(|segment| {
                    let (begin, place) = (number(segment, 8, 8)?, number(segment, 16, 8)?);
                    let is_here = number(segment, 0, 4)? == 1
                        && (begin..begin.saturating_add(number(segment, 32, 8)?)).contains(offset);
                    is_here.then(|| (offset - begin + place, *address))
                })
            })
            .collect();
        at.sort_unstable();
        let sections = self.table(40, 60, SECTION)?;
        // .symtab if present, else .dynsym.
        let table =
            [2, 11].iter().find_map(|kind| sections.iter().find(|s| number(s, 4, 4) == Some(*kind)))?;
        let texts = sections.get(usize::try_from(number(table, 40, 4)?).ok()?)?;
        let (begin, length) = (number(table, 24, 8)?, number(table, 32, 8)?);
        let mut found: HashMap<usize, u64> = HashMap::new();
        for chunk in (0..length).step_by(SYMBOL * CHUNK) {
            let size = usize::try_from(length - chunk).unwrap_or(usize::MAX).min(SYMBOL * CHUNK);
            for symbol in bytes_at(&self.file, begin + chunk, size)?.chunks_exact(SYMBOL) {
                assign(symbol, &at, &mut found);
            }
        }
        let texts = number(texts, 24, 8)?;
        Some(found.into_iter().filter_map(|(at, name)| Some((at, self.name(texts + name)?))).collect())
    }

    fn name(&self, offset: u64) -> Option<String> {
        let mut bytes = vec![0; MAX_NAME];
        let count = self.file.read_at(&mut bytes, offset).ok()?;
        let name = bytes.get(..count)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name);
        Some(format!("{:#}", rustc_demangle::demangle(&name)))
    }
}

/// Assigns a function symbol to the sorted addresses that it covers.
fn assign(symbol: &[u8], places: &[(u64, usize)], found: &mut HashMap<usize, u64>) -> Option<()> {
    const FUNCTION: u64 = 2;
    if number(symbol, 4, 1)? & 15 != FUNCTION {
        return None;
    }
    let (begin, size) = (number(symbol, 8, 8)?, number(symbol, 16, 8)?);
    let first = places.partition_point(|(place, _)| *place < begin);
    for (place, address) in places.get(first..)? {
        if *place >= begin.saturating_add(size) {
            break;
        }
        found.insert(*address, number(symbol, 0, 4)?);
    }
    Some(())
}

fn bytes_at(file: &File, offset: u64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..size)?.copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn landmark() -> u32 {
        std::hint::black_box(7)
    }

    #[test]
    fn functions_have_their_names() {
        let known = landmark as fn() -> u32 as usize + 1;
        let names = names([known, 3].into_iter());
        assert!(names[&known].ends_with("symbols::tests::landmark"), "{}", names[&known]);
        assert_eq!(names[&3], "0x3");
        assert_eq!(landmark(), 7);
    }
}
