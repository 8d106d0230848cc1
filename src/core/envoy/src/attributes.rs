//! The attributes of a message of Envoy under construction, before they become a bag.

use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use foldhash::HashMap;

pub(super) use super::known::Known;
use super::known::{KNOWN, NUMBER};
use crate::config::{EnvoyConfig, StaticAttribute};
use mixer_attribute::{
    AttributeBag, OwnedAttributes, ReceivedValue, SlotId, StringMap, Value, ValueType, Vocabulary,
    last_by_key,
};

/// Which attributes are set, for one vocabulary.
#[derive(Debug)]
pub struct AttributePlan<'v> {
    vocabulary: &'v Vocabulary,
    slots: Slots,
    everything: bool,
}

/// The slots of the [`Known`] attributes, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Slots(std::sync::Arc<[Option<SlotId>]>);

impl Slots {
    /// Looks up all slots. An attribute that is declared with an incompatible type has none: no expression could use it.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Self {
        let slot = |name: &str, value_type| {
            let slot = vocabulary.slot(name.as_bytes())?;
            vocabulary.value_type(slot).is_none_or(|declared| declared.holds(value_type)).then_some(slot)
        };
        Self(KNOWN.iter().map(|(_, name, value_type)| slot(name, *value_type)).collect())
    }
}

/// The attributes that a manifest declares with another type than Envoy sends them with: requests of Envoy do not have them. `None`
/// without any.
pub(crate) fn dropped(vocabulary: &Vocabulary) -> Option<String> {
    let conflict = |(_, name, sent): &(Known, &str, ValueType)| {
        let declared = vocabulary.value_type(vocabulary.slot(name.as_bytes())?)?;
        (!declared.holds(*sent)).then(|| format!("{name} is declared as {declared} and sent as {sent}"))
    };
    let conflicts: Vec<String> = KNOWN.iter().filter_map(conflict).collect();
    (!conflicts.is_empty()).then(|| conflicts.join(", "))
}

impl<'v> AttributePlan<'v> {
    /// The plan for requests. Attributes that the vocabulary does not declare are dropped unless `everything` is set.
    pub(crate) fn new(vocabulary: &'v Vocabulary, slots: Slots, everything: bool) -> Self {
        Self { vocabulary, slots, everything }
    }

    /// The plan for tools and tests: every attribute is kept.
    pub fn complete(vocabulary: &'v Vocabulary) -> Self {
        Self { vocabulary, slots: Slots::of(vocabulary), everything: true }
    }
}

/// Sets configured constants.
pub(super) fn set_static<'a>(constants: &'a [StaticAttribute], out: &mut Attributes<'a>) {
    for constant in constants {
        if let Some(value) = constant.value.as_value() {
            out.set_slot(constant.name.as_bytes(), constant.slot, value);
        }
    }
}

/// Sets the namespace that selects rules to the configured one, unless a source named one.
pub(super) fn set_default_namespace<'a>(config: &'a EnvoyConfig, out: &mut Attributes<'a>) {
    let name = &config.settings.default_namespace;
    let known = match out.text_of(Known::ReporterKind) {
        Some(b"outbound") => Known::SourceNamespace,
        _ => Known::DestinationNamespace,
    };
    if !name.is_empty() && out.text_of(known).is_none_or(<[u8]>::is_empty) {
        out.text(known, name.as_bytes());
    }
}

/// Values of which the names are indexed; fewer are compared one by one.
const INDEXED: usize = 64;

/// The attributes of one message. A later value of a name replaces an earlier one.
pub struct Attributes<'a> {
    plan: &'a AttributePlan<'a>,
    arena: &'a Bump,
    values: ArenaVec<'a, ReceivedValue<'a>>,
    /// By [`Known`]: one more than the index in `values`.
    at: [u32; NUMBER],
    /// The index of each name, if there are [`INDEXED`] values or more. Seeded: callers choose the names.
    index: HashMap<&'a [u8], usize>,
}

impl<'a> Attributes<'a> {
    /// No attributes yet.
    pub fn new(plan: &'a AttributePlan<'a>, arena: &'a Bump) -> Self {
        Self {
            plan,
            arena,
            values: ArenaVec::with_capacity_in(48, arena),
            at: [0; NUMBER],
            index: HashMap::default(),
        }
    }

    pub(super) fn arena(&self) -> &'a Bump {
        self.arena
    }

    pub(super) fn vocabulary(&self) -> &'a Vocabulary {
        self.plan.vocabulary
    }

    /// Whether setting this attribute has any effect.
    pub(super) fn wants(&self, known: Known) -> bool {
        self.plan.everything || self.slot_of(known).is_some()
    }

    fn slot_of(&self, known: Known) -> Option<SlotId> {
        self.plan.slots.0.get(known as usize).copied().flatten()
    }

    pub(super) fn set(&mut self, known: Known, value: Value<'a>) {
        let slot = self.slot_of(known);
        if slot.is_none() && !self.plan.everything {
            return;
        }
        match self.index_of(known).and_then(|index| self.values.get_mut(index)) {
            Some(existing) => existing.value = value,
            None => {
                let at = self.push(ReceivedValue { name: known.name().as_bytes(), slot, value });
                self.note(known, at);
            }
        }
    }

    pub(super) fn text(&mut self, known: Known, text: &'a [u8]) {
        self.set(known, Value::String(text));
    }

    /// Sets a string unless it is empty.
    pub(super) fn some_text(&mut self, known: Known, text: &'a [u8]) {
        if !text.is_empty() {
            self.set(known, Value::String(text));
        }
    }

    pub(super) fn number(&mut self, known: Known, number: i64) {
        self.set(known, Value::Int64(number));
    }

    /// Sets a map unless it is empty; the last of equal keys counts.
    pub(super) fn map(&mut self, known: Known, entries: ArenaVec<'a, (&'a [u8], &'a [u8])>) {
        let slot = self.slot_of(known);
        if !entries.is_empty() && (slot.is_some() || self.plan.everything) {
            let entries = last_by_key(entries).into_bump_slice();
            self.set(known, Value::StringMap(self.arena.alloc(StringMap { entries, source: slot })));
        }
    }

    /// Sets an attribute by a name from the configuration or the request.
    pub(super) fn set_named(&mut self, name: &'a [u8], value: Value<'a>) {
        let slot = self.plan.vocabulary.slot(name);
        self.set_slot(name, slot, value);
    }

    /// As [`set_named`](Self::set_named), with a known slot.
    pub(super) fn set_slot(&mut self, name: &'a [u8], slot: Option<SlotId>, value: Value<'a>) {
        if slot.is_none() && !self.plan.everything {
            return;
        }
        let value = match value {
            Value::StringMap(map) => {
                Value::StringMap(self.arena.alloc(StringMap { entries: map.entries, source: slot }))
            }
            other => other,
        };
        match self.position(name).and_then(|at| self.values.get_mut(at)) {
            Some(existing) => existing.value = value,
            None => {
                let at = self.push(ReceivedValue { name, slot, value });
                // A later `set` of the same known attribute must find this value.
                if let Some((known, ..)) = KNOWN.iter().find(|(_, known, _)| known.as_bytes() == name) {
                    self.note(*known, at);
                }
            }
        }
    }

    /// Adds a value with a new name. Returns its index.
    fn push(&mut self, value: ReceivedValue<'a>) -> usize {
        let at = self.values.len();
        if at == INDEXED {
            self.index = self.values.iter().enumerate().map(|(at, value)| (value.name, at)).collect();
        }
        if at >= INDEXED {
            self.index.insert(value.name, at);
        }
        self.values.push(value);
        at
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        if self.values.len() <= INDEXED {
            self.values.iter().position(|value| value.name == name)
        } else {
            self.index.get(name).copied()
        }
    }

    fn note(&mut self, known: Known, at: usize) {
        if let Some(place) = self.at.get_mut(known as usize) {
            // No message has so many values.
            *place = u32::try_from(at + 1).unwrap_or(0);
        }
    }

    fn index_of(&self, known: Known) -> Option<usize> {
        usize::try_from(*self.at.get(known as usize)?).ok()?.checked_sub(1)
    }

    /// Sets a map by name.
    pub(super) fn map_named(&mut self, name: &'a [u8], entries: ArenaVec<'a, (&'a [u8], &'a [u8])>) {
        let entries = last_by_key(entries).into_bump_slice();
        self.set_named(name, Value::StringMap(self.arena.alloc(StringMap { entries, source: None })));
    }

    /// Whether an attribute of this name is set.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.position(name).is_some()
    }

    /// The value of a known attribute.
    pub(super) fn get(&self, known: Known) -> Option<Value<'a>> {
        Some(self.values.get(self.index_of(known)?)?.value)
    }

    /// The value of a known attribute, if it is a string.
    pub(super) fn text_of(&self, known: Known) -> Option<&'a [u8]> {
        match self.get(known)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The bag of these attributes.
    pub fn bag(&self) -> AttributeBag<'a> {
        AttributeBag::of_received(&self.values, self.plan.vocabulary, self.arena)
    }

    /// The values, in the order in which their names came first.
    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = Value<'a>> {
        self.values.iter().map(|received| received.value)
    }

    /// A copy of these attributes.
    pub fn to_owned_attributes(&self) -> OwnedAttributes {
        self.values.iter().map(|received| (received.name, received.value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 000 names would be enough to lose known ones, and comparing each with all before takes minutes with this many.
    const NAMES: usize = 200_000;

    #[test]
    fn many_names_cost_no_more_each_than_few_and_lose_nothing() {
        let (vocabulary, arena) = (Vocabulary::builder().build(), Bump::new());
        let plan = AttributePlan::complete(&vocabulary);
        let mut attributes = Attributes::new(&plan, &arena);
        for round in 0..2 {
            for number in 0..NAMES {
                let name = arena.alloc_str(&format!("name.{number}"));
                attributes.set_named(name.as_bytes(), Value::Int64(round));
            }
            attributes.text(Known::RequestHost, b"first");
            attributes.text(Known::RequestHost, b"second");
            attributes.set_named(b"request.method", Value::String(b"GET"));
        }
        assert_eq!(attributes.text_of(Known::RequestHost), Some(&b"second"[..]));
        assert_eq!(attributes.text_of(Known::RequestMethod), Some(&b"GET"[..]));
        assert!(attributes.has(b"name.7") && !attributes.has(b"name."));
        assert_eq!(attributes.values.len(), NAMES + 2);
        let is_latest = |value: &ReceivedValue<'_>| matches!(value.value, Value::Int64(1));
        assert!(attributes.values.iter().take(NAMES).all(is_latest));
    }
}
