//! Which limits replace which: limits that replace each other would all be gone.

use std::collections::BTreeMap;

use mixer_config::FieldPath;

/// The names of limits with the names that they replace.
#[derive(Debug, Default)]
pub(super) struct Replacements(BTreeMap<String, Vec<(String, FieldPath)>>);

/// How far the search has come with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// On the path that is searched.
    Open,
    /// Everything that it replaces was searched.
    Done,
}

impl Replacements {
    /// Notes that a limit replaces another one. Nothing can replace a limit without a name.
    pub(super) fn add(&mut self, name: &str, replaced: &str, field: FieldPath) {
        if !name.is_empty() {
            self.0.entry(name.to_owned()).or_default().push((replaced.to_owned(), field));
        }
    }

    /// The replacements that close a cycle: the name, the replaced name, and the field. Cost: linear.
    pub(super) fn closing(&self) -> Vec<(&str, &str, FieldPath)> {
        let mut visits: BTreeMap<&str, Visit> = BTreeMap::new();
        let mut found = Vec::new();
        for start in self.0.keys() {
            let mut path: Vec<(&str, usize)> = Vec::new();
            let mut next = Some(start.as_str());
            loop {
                if let Some(name) = next.take()
                    && !visits.contains_key(name)
                {
                    visits.insert(name, Visit::Open);
                    path.push((name, 0));
                }
                let Some((name, at)) = path.last_mut() else { break };
                let name = *name;
                match self.0.get(name).and_then(|replaced| replaced.get(*at)) {
                    Some((replaced, field)) => {
                        *at += 1;
                        if visits.get(replaced.as_str()) == Some(&Visit::Open) {
                            found.push((name, replaced.as_str(), field.clone()));
                        }
                        next = Some(replaced);
                    }
                    None => {
                        visits.insert(name, Visit::Done);
                        path.pop();
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closing(pairs: &[(&str, &str)]) -> Vec<String> {
        let mut replacements = Replacements::default();
        for (name, replaced) in pairs {
            replacements.add(name, replaced, FieldPath::root());
        }
        replacements.closing().into_iter().map(|(name, replaced, _)| format!("{name} {replaced}")).collect()
    }

    #[test]
    fn cycles_are_found_and_chains_are_none() {
        assert_eq!(closing(&[("a", "b"), ("b", "a")]), ["b a"]);
        assert_eq!(closing(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]), ["c a"]);
        assert_eq!(closing(&[("d", "a"), ("a", "b"), ("b", "a"), ("e", "f"), ("f", "e")]), ["b a", "f e"]);
        for chain in
            [&[("a", "b"), ("b", "c"), ("a", "c")][..], &[("", "a"), ("a", "")], &[("a", "x"), ("b", "x")]]
        {
            assert_eq!(closing(chain), [""; 0], "{chain:?}");
        }
    }

    #[test]
    fn long_chains_are_followed() {
        let names: Vec<String> = (0..100_000).map(|number| format!("{number:06}")).collect();
        let mut pairs: Vec<(&str, &str)> = names.windows(2).map(|pair| (&*pair[0], &*pair[1])).collect();
        assert_eq!(closing(&pairs), [""; 0]);
        pairs.push((&names[99_999], &names[0]));
        assert_eq!(closing(&pairs), ["099999 000000"]);
    }
}
