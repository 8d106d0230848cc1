//! Shapes of answers: the attributes and map keys that decided them, present or absent.

use mixer_attribute::{GLOBAL_WORDS, OwnedAttributes, OwnedValue, append_key_bytes};
use mixer_wire::istio::mixer::v1::ReferencedAttributes;

/// Conditions of `ReferencedAttributes.AttributeMatch`.
const ABSENCE: i32 = 1;
const EXACT: i32 = 2;
/// Most tests of a shape, and most bytes of its names and keys: an answer that depends on more is not cached.
const MAX_TESTS: usize = 512;
const MAX_TEXT: usize = 16 << 10;
/// Shapes that are kept. Configuration needs a handful; only a condition that looks up a key sent by the caller produces more.
const MAX_SHAPES: usize = 64;

/// One attribute or map key that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    name: Box<[u8]>,
    key: Option<Box<[u8]>>,
    is_present: bool,
}

/// What an answer depends on: tests, sorted and unique.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape(Vec<Test>);

impl Shape {
    /// The shape of the answer to a request with these attributes. `None` if the answer cannot be cached: a condition that is not known (or
    /// a regular expression), a word that is in no dictionary, conditions that the request itself does not meet, too many of them.
    ///
    /// `map_key` 0 is both "no key" and the first global word. It is a key if the attribute is a map, and may then stand for an empty key
    /// as well, which has no index: the answer is taken to depend on both.
    pub(crate) fn of(
        message: &ReferencedAttributes,
        attributes: &OwnedAttributes,
        global_words: usize,
    ) -> Option<Self> {
        let word = |index: i32| match usize::try_from(index) {
            Ok(index) => GLOBAL_WORDS.get(..global_words)?.get(index).map(|word| word.as_bytes()),
            Err(_) => message.words.get(usize::try_from(!index).ok()?).map(|word| &word[..]),
        };
        if message.attribute_matches.len() > MAX_TESTS {
            return None;
        }
        let mut tests = Vec::with_capacity(message.attribute_matches.len());
        for found in &message.attribute_matches {
            let is_present = match found.condition {
                ABSENCE => false,
                EXACT => true,
                _ => return None,
            };
            let name = word(found.name)?;
            let mut push = |key: Option<&[u8]>, is_present| {
                tests.push(Test { name: name.into(), key: key.map(Box::from), is_present });
            };
            match attributes.get(name) {
                Some(OwnedValue::StringMap(map)) => {
                    let key = word(found.map_key)?;
                    if found.map_key != 0 {
                        if map.contains_key(key) != is_present {
                            return None;
                        }
                        push(Some(key), is_present);
                        continue;
                    }
                    let (named, empty) = (map.contains_key(key), map.contains_key(&b""[..]));
                    if named != is_present && empty != is_present {
                        return None;
                    }
                    push(Some(key), named);
                    push(Some(b""), empty);
                }
                value => {
                    if value.is_some() != is_present {
                        return None;
                    }
                    push(None, is_present);
                }
            }
        }
        tests.sort_unstable();
        tests.dedup();
        let text = |test: &Test| test.name.len() + test.key.as_ref().map_or(0, |key| key.len());
        (tests.iter().map(text).sum::<usize>() <= MAX_TEXT).then_some(Self(tests))
    }

    /// Appends the values of a request; false if the request is not of this shape.
    pub(crate) fn append_key(&self, attributes: &OwnedAttributes, out: &mut Vec<u8>) -> bool {
        self.0.iter().all(|test| test.append_key(attributes, out))
    }
}

impl Test {
    /// An absent key requires the map to be present: an answer without any map was decided by the absence of the whole attribute.
    fn append_key(&self, attributes: &OwnedAttributes, out: &mut Vec<u8>) -> bool {
        match (&self.key, attributes.get(&self.name)) {
            (None, None) => !self.is_present,
            (None, Some(value)) => self.is_present && value.append_key(out),
            (Some(key), Some(OwnedValue::StringMap(map))) => match map.get(&key[..]) {
                Some(value) => {
                    append_key_bytes(value, out);
                    self.is_present
                }
                None => !self.is_present,
            },
            (Some(_), _) => false,
        }
    }
}

/// Shapes with an identity each, the one that was used last first.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: Vec<(u64, Shape)>,
    next_id: u64,
}

impl Shapes {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<(u64, &Shape)> {
        self.known.get(at).map(|(id, shape)| (*id, shape))
    }

    /// Makes a shape the first.
    pub(crate) fn use_at(&mut self, at: usize) {
        if let Some(before) = self.known.get_mut(..=at) {
            before.rotate_right(1);
        }
    }

    /// The identity of a shape, which is learned if it is new; the one that was not used for the longest time is forgotten for it.
    pub(crate) fn learn(&mut self, shape: Shape) -> (u64, &Shape) {
        match self.known.iter().position(|(_, known)| *known == shape) {
            Some(at) => self.use_at(at),
            None => {
                self.known.truncate(MAX_SHAPES - 1);
                self.known.insert(0, (self.next_id, shape));
                self.next_id += 1;
            }
        }
        // INVARIANT: the shape is the first now.
        #[expect(clippy::indexing_slicing, reason = "one was moved or inserted to the front")]
        let (id, shape) = &self.known[0];
        (*id, shape)
    }
}
