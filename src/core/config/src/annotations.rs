//! Names and values of a resource, in one piece of memory.

use std::collections::BTreeMap;

/// Annotations: texts by name, sorted. Most resources have none or many that nothing reads, so that they take little more than their text: a
/// map of strings takes ten times as much.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Annotations {
    /// Name, value, next name and so on.
    text: Box<str>,
    /// The end of every name and every value.
    ends: Box<[u32]>,
}

impl Annotations {
    /// The value of an annotation. Cost: logarithmic.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.part(2 * middle).cmp(name) {
                std::cmp::Ordering::Equal => return Some(self.part(2 * middle + 1)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Whether there is an annotation with this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.len()).map(|index| (self.part(2 * index), self.part(2 * index + 1)))
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What they take, in bytes.
    pub fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    fn part(&self, index: usize) -> &str {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        let start = index.checked_sub(1).map_or(0, end);
        self.text.get(start..end(index)).unwrap_or_default()
    }
}

impl From<BTreeMap<String, String>> for Annotations {
    /// Documents are far shorter than 4 GiB; what is beyond is left out.
    fn from(all: BTreeMap<String, String>) -> Self {
        let length = all.iter().map(|(name, value)| name.len() + value.len()).sum();
        let (mut text, mut ends) = (String::with_capacity(length), Vec::with_capacity(2 * all.len()));
        for (name, value) in &all {
            let middle = text.len() + name.len();
            let (Ok(middle), Ok(end)) = (u32::try_from(middle), u32::try_from(middle + value.len())) else {
                break;
            };
            text.push_str(name);
            text.push_str(value);
            ends.extend([middle, end]);
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_map() {
        let all = [("", "empty"), ("a", ""), ("a/b", "c"), ("mixer.dev/default", "deny"), ("ü", "x")];
        let map: BTreeMap<String, String> =
            all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        for count in 0..=all.len() {
            let some: BTreeMap<_, _> = map.clone().into_iter().take(count).collect();
            let annotations = Annotations::from(some.clone());
            assert_eq!((annotations.len(), annotations.is_empty()), (count, count == 0));
            assert!(annotations.iter().eq(some.iter().map(|(k, v)| (k.as_str(), v.as_str()))));
            assert!(annotations.keys().eq(some.keys().map(String::as_str)));
            for (name, _) in all {
                assert_eq!(annotations.get(name), some.get(name).map(String::as_str), "{name} of {count}");
            }
            assert_eq!(annotations.get("b"), None);
            assert_eq!(annotations == Annotations::from(map.clone()), count == all.len());
        }
        assert_eq!(Annotations::from(map).size(), 10 * 4 + "emptyaa/bcmixer.dev/defaultdenyüx".len());
    }
}
