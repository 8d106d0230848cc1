//! The patterns that each unit of a configuration uses: all of them together are bounded.
//!
//! The configuration that serves does not count: whatever it uses, the next one has room for as much, and so can replace it.

use foldhash::HashMap;

use mixer_config::ResourceKey;
use mixer_expr::functions::{MAX_OF_CONFIGURATION, Pattern};

/// The patterns of the configuration that is built, each counted once.
#[derive(Debug)]
pub(super) struct PatternShares {
    /// Those of each unit that has some.
    by_unit: HashMap<ResourceKey, Vec<Pattern>>,
    /// How often each is used.
    uses: HashMap<Pattern, usize>,
    bytes: usize,
    max: usize,
    /// The unit that is built.
    unit: Option<ResourceKey>,
    /// Whether it was refused some.
    is_refused: bool,
}

impl Default for PatternShares {
    fn default() -> Self {
        Self {
            by_unit: HashMap::default(),
            uses: HashMap::default(),
            bytes: 0,
            max: MAX_OF_CONFIGURATION,
            unit: None,
            is_refused: false,
        }
    }
}

impl PatternShares {
    /// A unit is built: what it used before counts no longer.
    pub(super) fn begin(&mut self, unit: &ResourceKey) {
        self.release(unit);
        self.unit = Some(unit.clone());
    }

    /// A unit is gone.
    pub(super) fn release(&mut self, unit: &ResourceKey) {
        for pattern in self.by_unit.remove(unit).into_iter().flatten() {
            let Some(uses) = self.uses.get_mut(&pattern) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.uses.remove(&pattern);
                self.bytes -= pattern.bytes();
            }
        }
    }

    /// The unit that is built uses patterns; false if they do not fit beside those of the others.
    pub(super) fn take(&mut self, patterns: &[Pattern]) -> bool {
        let Some(unit) = &self.unit else { return true };
        let mut new: Vec<&Pattern> = Vec::new();
        for pattern in patterns.iter().filter(|pattern| !self.uses.contains_key(pattern)) {
            if !new.contains(&pattern) {
                new.push(pattern);
            }
        }
        let more: usize = new.iter().map(|pattern| pattern.bytes()).sum();
        if self.bytes.saturating_add(more) > self.max {
            self.is_refused = true;
            return false;
        }
        self.bytes += more;
        patterns.iter().for_each(|pattern| *self.uses.entry(pattern.clone()).or_default() += 1);
        self.by_unit.entry(unit.clone()).or_default().extend_from_slice(patterns);
        true
    }

    /// Patterns were refused because there is no room for any configuration.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// The unit is built. Whether it was refused patterns.
    pub(super) fn take_refused(&mut self) -> bool {
        self.unit = None;
        std::mem::take(&mut self.is_refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mixer_attribute::{ValueType, Vocabulary};
    use mixer_expr::Language;

    fn patterns(text: &str) -> Vec<Pattern> {
        let mut words = Vocabulary::builder();
        words.declare("source.user", ValueType::String);
        let text = format!("\"{text}\".matches(source.user)");
        mixer_expr::compile(Language::Cexl, &text, &words.build()).unwrap().patterns()
    }

    fn unit(name: &str) -> ResourceKey {
        ResourceKey { kind: "rule".into(), namespace: "ns".into(), name: name.into() }
    }

    #[test]
    fn a_pattern_counts_once_and_until_no_unit_uses_it() {
        let [a, b] = ["^a$", "^b$"].map(patterns);
        let mut shares = PatternShares { max: a[0].bytes(), ..PatternShares::default() };
        shares.begin(&unit("one"));
        assert!(shares.take(&a) && shares.take(&a));
        shares.begin(&unit("two"));
        assert!(shares.take(&a) && !shares.take(&b) && shares.take_refused() && !shares.take_refused());
        assert!(shares.take(&b), "no unit is built");
        shares.begin(&unit("one"));
        assert!(!shares.take(&b), "the other one uses it still");
        shares.release(&unit("two"));
        shares.begin(&unit("one"));
        assert!(shares.take(&b) && !shares.take(&a));
        shares.release(&unit("one"));
        assert_eq!((shares.bytes, shares.uses.len(), shares.by_unit.len()), (0, 0, 0));
    }
}
