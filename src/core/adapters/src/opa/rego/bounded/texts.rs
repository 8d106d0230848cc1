//! Searches in texts and lists, and unions of objects. The engine takes a time that is the product of the lengths of what it compares, or adds, and
//! does not look at the clock meanwhile: callers choose both sides.

use std::collections::BTreeSet;

use anyhow::bail;
use regorus::Value;

use super::{Builtin, MAX_RANGE, beyond, text};
use mixer_base::allocation::is_exceeded;

/// Most pairs of a text and its beginning, or end, that a call compares.
const MAX_PAIRS: usize = 1 << 20;
/// Bytes that take about as long to compare as another pair.
const OF_PAIR: usize = 64;

/// `indexof(text, sought)`.
pub(super) fn index_of(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let (Some(whole), Some(sought)) = (text(arguments, 0), text(arguments, 1)) else {
        return builtin.call(arguments);
    };
    // As the engine, which looks behind each character.
    let found = whole.find(sought).filter(|_| !whole.is_empty());
    let characters = found.and_then(|at| whole.get(..at)).map(|before| before.chars().count());
    Ok(Value::from(characters.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1)))
}

/// `indexof_n(text, sought)`.
pub(super) fn indices_of(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let (Some(whole), Some(sought)) = (text(arguments, 0), text(arguments, 1)) else {
        return builtin.call(arguments);
    };
    let mut starts = ends(whole.as_bytes(), sought.as_bytes()).map(|end| end - sought.len()).peekable();
    let mut found = Vec::new();
    for (index, (at, _)) in whole.char_indices().enumerate() {
        if sought.is_empty() || starts.next_if_eq(&at).is_some() {
            found.push(Value::from(i64::try_from(index)?));
        }
        if found.len() as u64 > MAX_RANGE {
            return Err(beyond(format!("{}: at most {MAX_RANGE} places are found", builtin.name)));
        }
    }
    Ok(Value::from(found))
}

/// `trim(text, cutset)` and its halves.
pub(super) fn trimmed(
    builtin: &Builtin,
    arguments: &[Value],
    (at_start, at_end): (bool, bool),
) -> anyhow::Result<Value> {
    let (Some(mut whole), Some(cut)) = (text(arguments, 0), text(arguments, 1)) else {
        return builtin.call(arguments);
    };
    let cut: BTreeSet<char> = cut.chars().collect();
    if at_start {
        whole = whole.trim_start_matches(|c| cut.contains(&c));
    }
    if at_end {
        whole = whole.trim_end_matches(|c| cut.contains(&c));
    }
    Ok(Value::from(whole))
}

/// `strings.any_prefix_match(texts, beginnings)` and `strings.any_suffix_match(texts, ends)`.
pub(super) fn compared(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let pairs = match arguments {
        [texts, sought] => count(texts).0.saturating_mul(count(sought).1),
        _ => 0,
    };
    if pairs > MAX_PAIRS {
        return Err(beyond(format!(
            "{}: at most {MAX_PAIRS} pairs of texts are compared, where {OF_PAIR} bytes count as one more",
            builtin.name
        )));
    }
    builtin.call(arguments)
}

/// How many texts there are, and what comparing each of them counts.
fn count(texts: &Value) -> (usize, usize) {
    let add = |(count, sum): (usize, usize), value: &Value| {
        let length = if let Value::String(text) = value { text.len() } else { 0 };
        (count + 1, sum.saturating_add(1 + length / OF_PAIR))
    };
    match texts {
        Value::Array(texts) => texts.iter().fold((0, 0), add),
        Value::Set(texts) => texts.iter().fold((0, 0), add),
        text => add((0, 0), text),
    }
}

/// `strings.count(text, sought)`: occurrences may overlap, as in the engine, which panics where `sought` is empty.
pub(super) fn counted(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let (Some(whole), Some(sought)) = (text(arguments, 0), text(arguments, 1)) else {
        return builtin.call(arguments);
    };
    let count = match sought.is_empty() {
        // As OPA.
        true => whole.chars().count() + 1,
        false => ends(whole.as_bytes(), sought.as_bytes()).count(),
    };
    Ok(Value::from(u64::try_from(count)?))
}

/// `union(sets)`, which the engine makes anew for each set.
pub(super) fn united_sets(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let Some(Value::Set(sets)) = arguments.first() else { return builtin.call(arguments) };
    let mut all = BTreeSet::new();
    for set in sets.iter() {
        let Value::Set(members) = set else { return builtin.call(arguments) };
        all.extend(members.iter().cloned());
        if is_exceeded() {
            bail!("a set has no room in the memory of the evaluation");
        }
    }
    Ok(Value::from(all))
}

/// `object.subset(super, sub)`.
pub(super) fn subset(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    match arguments {
        [whole, part] => Ok(Value::from(is_subset(whole, part))),
        _ => builtin.call(arguments),
    }
}

fn is_subset(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| is_subset(whole, part)))
        }
        (Value::Set(whole), Value::Set(part)) => part.iter().all(|member| whole.contains(member)),
        (Value::Array(whole), Value::Array(part)) => part.is_empty() || ends(whole, part).next().is_some(),
        (Value::Array(whole), Value::Set(part)) => {
            let whole: BTreeSet<&Value> = whole.iter().collect();
            part.iter().all(|member| whole.contains(member))
        }
        (whole, part) => whole == part,
    }
}

/// `object.union_n(objects)`.
pub(super) fn united(builtin: &Builtin, arguments: &[Value]) -> anyhow::Result<Value> {
    let Some(Value::Array(objects)) = arguments.first() else { return builtin.call(arguments) };
    if !objects.iter().all(|object| matches!(object, Value::Object(_))) {
        return builtin.call(arguments);
    }
    let mut all = Value::new_object();
    objects.iter().try_for_each(|object| unite(&mut all, object))?;
    Ok(all)
}

/// Adds the members of an object to another one. Cost: linear in what is added, as no member of the result is shared twice.
fn unite(into: &mut Value, added: &Value) -> anyhow::Result<()> {
    if let (Value::Object(_), Value::Object(members)) = (&*into, added) {
        let into = into.as_object_mut()?;
        for (key, value) in members.iter() {
            match into.get_mut(key) {
                Some(known) => unite(known, value)?,
                None => drop(into.insert(key.clone(), value.clone())),
            }
        }
    } else {
        *into = added.clone();
    }
    Ok(())
}

/// Where `sought` ends in `whole`, also where it overlaps with itself (Knuth, Morris and Pratt). Cost: linear in both.
fn ends<'t, T: PartialEq>(whole: &'t [T], sought: &'t [T]) -> impl Iterator<Item = usize> + 't {
    let borders = borders(sought);
    let mut length = 0;
    whole.iter().enumerate().filter_map(move |(at, item)| {
        length = followed(sought, &borders, length, item);
        (length == sought.len()).then_some(at + 1)
    })
}

/// For each beginning of a list, the length of the longest one that is its end as well, without the whole.
fn borders<T: PartialEq>(list: &[T]) -> Vec<usize> {
    let mut borders = Vec::with_capacity(list.len());
    let mut length = 0;
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            length = followed(list, &borders, length, item);
        }
        borders.push(length);
    }
    borders
}

/// The length of the longest beginning of `list` with which a text ends whose last item is `item`, if it ended with `length` items before.
fn followed<T: PartialEq>(list: &[T], borders: &[usize], mut length: usize, item: &T) -> usize {
    loop {
        if list.get(length) == Some(item) {
            return length + 1;
        }
        match length.checked_sub(1).and_then(|last| borders.get(last)) {
            Some(shorter) => length = *shorter,
            None => return 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_may_overlap() {
        for (whole, sought, expected) in [
            ("aaaa", "aa", vec![2, 3, 4]),
            ("abababc", "ababc", vec![7]),
            ("abcabd", "abd", vec![6]),
            ("ab", "abc", vec![]),
            ("xaabaabaaabx", "aabaa", vec![6, 9]),
        ] {
            let found: Vec<usize> = ends(whole.as_bytes(), sought.as_bytes()).collect();
            assert_eq!(found, expected, "{whole} {sought}");
        }
    }
}
