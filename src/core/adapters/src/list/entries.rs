//! The entries of a list, indexed for look-ups.

use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashTable;

use super::EntryType;
use super::addresses::{Addresses, Dialect, Network};
use super::document::{is_comment, whitelist};
use super::openness::PROBES;
use mixer_attribute::text::ip_from_bytes;
use mixer_expr::functions::{RegexSet, TooCostly};

/// Most patterns of one list.
pub(super) const MAX_PATTERNS: usize = 50_000;

/// The result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The symbol is on the list.
    Found,
    /// The symbol is not on the list.
    Missing,
    /// The list has addresses, and the symbol is not one.
    NotAnAddress,
    /// The patterns need too much work for a symbol of this length.
    TooCostly,
}

/// The entries of a list.
#[derive(Debug)]
pub(super) struct Entries {
    index: ListIndex,
    /// Number of entries for the log: distinct strings, otherwise all.
    pub(super) len: usize,
    /// The body of the provider holds neither an entry nor the statement that there is none: it may have been emptied or cut short.
    pub(super) lacks_list: bool,
}

#[derive(Debug)]
enum ListIndex {
    Strings(TextSet),
    UpperCase(UpperCaseSet),
    Addresses(Addresses),
    Patterns(RegexSet),
    /// As in Istio Mixer, whatever work a symbol takes.
    UnboundedPatterns(RegexSet),
}

impl Entries {
    /// Parses the body of a provider and adds `overrides`, which have been validated.
    ///
    /// Errors: the first invalid entry of `body`.
    pub(super) fn parse(
        entry_type: EntryType,
        text: &Arc<[u8]>,
        overrides: &[String],
        dialect: Dialect,
    ) -> Result<Self, String> {
        let body = &**text;
        let lacks_lines = || body.split(|b| *b == b'\n').all(is_comment);
        let extra = overrides.iter().map(String::as_bytes);
        let lines = body.split(|b| *b == b'\n').chain(extra.clone()).filter(|line| !line.is_empty());
        Ok(match entry_type {
            EntryType::Strings => {
                let set = TextSet::new(text, overrides)?;
                Self { len: set.table.len(), lacks_list: lacks_lines(), index: ListIndex::Strings(set) }
            }
            EntryType::CaseInsensitiveStrings => {
                let set = UpperCaseSet::new(lines)?;
                let (len, index) = (set.table.len(), ListIndex::UpperCase(set));
                Self { len, lacks_list: lacks_lines(), index }
            }
            EntryType::IpAddresses => {
                let mut networks = Vec::new();
                let listed = whitelist(body, dialect)?;
                let lacks_list = listed.is_none();
                for entry in listed.unwrap_or_default() {
                    let error = |e| format!("could not parse list entry {entry}: {e}");
                    networks.push(Network::parse(&entry, dialect).map_err(error)?);
                }
                networks.extend(overrides.iter().filter_map(|o| Network::parse(o, dialect).ok()));
                let (len, index) = (networks.len(), ListIndex::Addresses(Addresses::new(networks)));
                Self { len, lacks_list, index }
            }
            EntryType::Regex => {
                let lines = body.split(|b| *b == b'\n').filter(|line| !line.is_empty());
                // An empty override is a pattern; an empty line is not.
                let patterns: Vec<&[u8]> = lines.chain(extra).take(MAX_PATTERNS + 1).collect();
                if patterns.len() > MAX_PATTERNS {
                    return Err(format!("the list has more than {MAX_PATTERNS} patterns"));
                }
                let set = RegexSet::compile(&patterns)?;
                let index = match dialect {
                    Dialect::Native => ListIndex::Patterns(set),
                    Dialect::Istio => ListIndex::UnboundedPatterns(set),
                };
                Self { len: patterns.len(), lacks_list: lacks_lines(), index }
            }
        })
    }

    /// Whether they are in the text of the list, which they share.
    pub(super) fn has_text(&self) -> bool {
        matches!(self.index, ListIndex::Strings(_))
    }

    /// Their bytes, without compiled patterns, which have a bound of their own.
    pub(super) fn bytes(&self) -> usize {
        match &self.index {
            ListIndex::Strings(TextSet { texts, table, .. }) => {
                texts.list.len() + texts.overrides.len() + table.allocation_size()
            }
            ListIndex::UpperCase(UpperCaseSet { text, table, .. }) => text.len() + table.allocation_size(),
            ListIndex::Addresses(addresses) => addresses.bytes(),
            ListIndex::Patterns(_) | ListIndex::UnboundedPatterns(_) => 0,
        }
    }

    /// Whether patterns match the empty text, or what no pattern for certain values does; `false` for other entries.
    pub(super) fn may_match_everything(&self) -> bool {
        match &self.index {
            ListIndex::Patterns(patterns) => {
                patterns.is_match(b"") || PROBES.iter().all(|probe| patterns.is_match(probe))
            }
            _ => false,
        }
    }

    /// Looks up `symbol`. Does not allocate, except for a long one in a list of patterns.
    pub(super) fn look_up(&self, symbol: &[u8]) -> Lookup {
        let found = match &self.index {
            ListIndex::Strings(set) => set.contains(symbol),
            ListIndex::UpperCase(set) => set.contains(symbol),
            ListIndex::Addresses(addresses) => {
                let ip = std::str::from_utf8(symbol).ok().and_then(|text| text.parse::<IpAddr>().ok());
                match ip {
                    Some(ip) => addresses.contains(ip),
                    None => return Lookup::NotAnAddress,
                }
            }
            ListIndex::Patterns(patterns) => match patterns.try_match(symbol) {
                Ok(found) => found,
                Err(TooCostly) => return Lookup::TooCostly,
            },
            ListIndex::UnboundedPatterns(patterns) => patterns.is_match(symbol),
        };
        if found { Lookup::Found } else { Lookup::Missing }
    }
}

impl Entries {
    /// Whether an address of 4 or 16 bytes is on a list of addresses; `None` for other lists and other bytes.
    pub(super) fn holds_address(&self, bytes: &[u8]) -> Option<bool> {
        match &self.index {
            ListIndex::Addresses(addresses) => Some(addresses.contains(ip_from_bytes(bytes)?)),
            ListIndex::Strings(_)
            | ListIndex::UpperCase(_)
            | ListIndex::Patterns(_)
            | ListIndex::UnboundedPatterns(_) => None,
        }
    }
}

/// The place of an entry in a text.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u32,
    len: u32,
}

impl Place {
    /// Errors: the text is too large.
    fn new(start: usize, len: usize) -> Result<Self, String> {
        match (u32::try_from(start), u32::try_from(len)) {
            (Ok(start), Ok(len)) => Ok(Self { start, len }),
            _ => Err("the entries have more than 4 GiB".to_owned()),
        }
    }

    fn range(self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

/// The lines of a text and the overrides, compared byte by byte. They stay where they are: an entry takes its [`Place`] only.
#[derive(Debug)]
struct TextSet {
    texts: Texts,
    table: HashTable<Place>,
    hasher: foldhash::quality::RandomState,
}

/// The text of a list, and behind it the overrides.
#[derive(Debug)]
struct Texts {
    list: Arc<[u8]>,
    overrides: Box<[u8]>,
}

impl Texts {
    fn at(&self, place: Place) -> &[u8] {
        let range = place.range();
        let (text, range) = match range.start.checked_sub(self.list.len()) {
            Some(start) => (&*self.overrides, start..start + range.len()),
            None => (&*self.list, range),
        };
        text.get(range).unwrap_or_default()
    }
}

impl TextSet {
    fn new(list: &Arc<[u8]>, overrides: &[String]) -> Result<Self, String> {
        let hasher = foldhash::quality::RandomState::default();
        let texts = Texts { list: Arc::clone(list), overrides: overrides.concat().into_bytes().into() };
        let mut set = Self { texts, table: HashTable::new(), hasher };
        let mut start = 0;
        for line in list.split(|byte| *byte == b'\n') {
            set.insert(line, Place::new(start, line.len())?);
            start += line.len() + 1;
        }
        start = list.len();
        for entry in overrides {
            set.insert(entry.as_bytes(), Place::new(start, entry.len())?);
            start += entry.len();
        }
        Ok(set)
    }

    /// Adds an entry, unless it is empty.
    fn insert(&mut self, entry: &[u8], place: Place) {
        let Self { texts, table, hasher } = self;
        let hash = hasher.hash_one(entry);
        if !entry.is_empty() && table.find(hash, |known| texts.at(*known) == entry).is_none() {
            table.insert_unique(hash, place, |known| hasher.hash_one(texts.at(*known)));
        }
    }

    fn contains(&self, symbol: &[u8]) -> bool {
        let hash = self.hasher.hash_one(symbol);
        self.table.find(hash, |known| self.texts.at(*known) == symbol).is_some()
    }
}

/// Strings compared by their upper case, code point by code point, as Go's `strings.ToUpper` maps them.
#[derive(Debug)]
struct UpperCaseSet {
    /// All of them, in upper case.
    text: Box<str>,
    table: HashTable<Place>,
    hasher: foldhash::quality::RandomState,
}

impl UpperCaseSet {
    fn new<'e>(entries: impl Iterator<Item = &'e [u8]>) -> Result<Self, String> {
        let hasher = foldhash::quality::RandomState::default();
        let (mut text, mut table) = (String::new(), HashTable::<Place>::new());
        for entry in entries {
            let start = text.len();
            text.extend(upper_case(entry));
            let place = Place::new(start, text.len() - start)?;
            let at = |place: Place| text.get(place.range()).unwrap_or_default();
            let hash = hash_chars(&hasher, at(place).chars());
            if table.find(hash, |known| at(*known) == at(place)).is_none() {
                table.insert_unique(hash, place, |known| hash_chars(&hasher, at(*known).chars()));
            } else {
                text.truncate(start);
            }
        }
        Ok(Self { text: text.into(), table, hasher })
    }

    fn contains(&self, symbol: &[u8]) -> bool {
        let hash = hash_chars(&self.hasher, upper_case(symbol));
        let at = |place: Place| self.text.get(place.range()).unwrap_or_default();
        self.table.find(hash, |known| at(*known).chars().eq(upper_case(symbol))).is_some()
    }
}

fn hash_chars(hasher: &foldhash::quality::RandomState, chars: impl Iterator<Item = char>) -> u64 {
    let mut state = hasher.build_hasher();
    chars.for_each(|c| state.write_u32(u32::from(c)));
    state.finish()
}

/// The code points in upper case; each byte that is not UTF-8 becomes U+FFFD.
fn upper_case(bytes: &[u8]) -> impl Iterator<Item = char> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let bad = chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER);
        chunk.valid().chars().map(upper_case_char).chain(bad)
    })
}

/// The simple, one-to-one upper case of Unicode: `ß` stays `ß`.
fn upper_case_char(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        _ => {
            // Where the full mapping has several code points, the simple one is the code point itself, except for Greek
            // letters with iota subscript, which have a title case letter.
            let offset = match u32::from(c) {
                0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7 => 8,
                0x1fb3 | 0x1fc3 | 0x1ff3 => 9,
                _ => 0,
            };
            char::from_u32(u32::from(c) + offset).unwrap_or(c)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entry_type: EntryType, body: &[u8], overrides: &[String]) -> Result<Entries, String> {
        Entries::parse(entry_type, &body.into(), overrides, Dialect::Native)
    }

    fn look_up(entry_type: EntryType, body: &[u8], overrides: &[&str], symbol: &[u8]) -> Lookup {
        let overrides: Vec<String> = overrides.iter().map(|o| (*o).to_owned()).collect();
        parse(entry_type, body, &overrides).unwrap().look_up(symbol)
    }

    #[test]
    fn strings_are_compared_byte_by_byte() {
        let body = b"one\ntwo\r\n\n three \nfour\n\xff";
        for (symbol, found) in [
            (&b"one"[..], true),
            (b"two", false),
            (b"two\r", true),
            (b"three", false),
            (b" three ", true),
            (b"", false),
            (b"five", true),
            (b"\xff", true),
            (b"One", false),
        ] {
            let wanted = if found { Lookup::Found } else { Lookup::Missing };
            assert_eq!(look_up(EntryType::Strings, body, &["five", ""], symbol), wanted, "{symbol:?}");
        }
        assert_eq!(parse(EntryType::Strings, b"a\na\nb", &["b".into()]).unwrap().len, 2);
    }

    /// Entries are places in the text: the first and the last one, those twice, and those of the overrides.
    #[test]
    fn entries_stay_in_their_texts() {
        let lines: String = (0..5000).map(|n| format!("user-{}\n", n % 4000)).collect();
        let overrides = ["user-1".to_owned(), String::new(), "extra".to_owned(), "other".to_owned()];
        for (entry_type, text) in
            [(EntryType::Strings, "user-"), (EntryType::CaseInsensitiveStrings, "uSer-")]
        {
            let entries = parse(entry_type, lines.trim_end().as_bytes(), &overrides).unwrap();
            assert_eq!(entries.len, 4002);
            let found = |symbol: &str| entries.look_up(symbol.as_bytes()) == Lookup::Found;
            assert!((0..4000).all(|n| found(&format!("{text}{n}"))) && found("extra") && found("other"));
            for absent in ["", "user-", "user-4000", "extraother", "ser-1", "user-1\nuser-2", "user-999extra"]
            {
                assert!(!found(absent), "{absent}");
            }
        }
        let none = parse(EntryType::Strings, b"", &[]).unwrap();
        assert_eq!((none.len, none.look_up(b"")), (0, Lookup::Missing));
    }

    #[test]
    fn upper_case_is_one_to_one() {
        for (entry, symbol, found) in [
            ("Alpha", "aLPHA", true),
            ("straße", "STRAßE", true),
            ("straße", "STRASSE", false),
            ("straße", "STRAẞE", false),
            ("İstanbul", "istanbul", false),
            ("İstanbul", "i\u{307}stanbul", false),
            ("ı", "I", true),
            ("ſ", "s", true),
            ("ǆ", "Ǆ", true),
            ("ᾳ", "ᾼ", true),
            ("ᾀ", "ᾈ", true),
            ("ŉ", "ʼN", false),
            ("é", "e\u{301}", false),
            ("σ", "ς", true),
        ] {
            let wanted = if found { Lookup::Found } else { Lookup::Missing };
            let got = look_up(EntryType::CaseInsensitiveStrings, entry.as_bytes(), &[], symbol.as_bytes());
            assert_eq!(got, wanted, "{entry} {symbol}");
        }
        assert_eq!(parse(EntryType::CaseInsensitiveStrings, b"a\nA", &[]).unwrap().len, 1);
    }

    #[test]
    fn address_lists_are_mappings() {
        let rows: &[(&str, Result<usize, &str>)] = &[
            ("", Ok(0)),
            ("whitelist: [10.0.0.0/8]", Ok(1)),
            ("{\"WhiteList\": [\"10.0.0.0/8\", \"::1\"], \"other\": 5}", Ok(2)),
            ("other: 1", Ok(0)),
            ("whitelist:", Ok(0)),
            ("10.0.0.0/8\n9.9.9.9\n", Err("could not unmarshal data from list ")),
            ("whitelist: x", Err("could not unmarshal data from list ")),
            ("whitelist: [1]", Err("could not unmarshal data from list ")),
            ("whitelist: [", Err("could not unmarshal data from list ")),
            ("whitelist: [oops]", Err("could not parse list entry oops: invalid CIDR address: oops/32")),
        ];
        for (body, wanted) in rows {
            match (parse(EntryType::IpAddresses, body.as_bytes(), &[]), wanted) {
                (Ok(entries), Ok(len)) => assert_eq!(entries.len, *len, "{body}"),
                (Err(error), Err(start)) => assert!(error.starts_with(start), "{body}: {error}"),
                (got, _) => panic!("{body}: {got:?}"),
            }
        }
        let bad = look_up(EntryType::IpAddresses, b"", &[], b"10.0.0.1/32");
        assert_eq!(bad, Lookup::NotAnAddress);
        assert_eq!(look_up(EntryType::IpAddresses, b"", &["10.0.0.0/8"], b"10.0.0.1"), Lookup::Found);
    }

    #[test]
    fn patterns_match_anywhere() {
        for (symbol, found) in [("aaa", true), ("xbbx", true), ("z", true), ("c", false), ("", false)] {
            let wanted = if found { Lookup::Found } else { Lookup::Missing };
            let got = look_up(EntryType::Regex, b"^a+$\n\nb{2}\n", &["^z$"], symbol.as_bytes());
            assert_eq!(got, wanted, "{symbol}");
        }
        assert_eq!(look_up(EntryType::Regex, b"", &[""], b"anything"), Lookup::Found);
        assert!(parse(EntryType::Regex, b"ok\n(bad", &[]).is_err());
    }
}
