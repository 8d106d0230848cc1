//! Values of fields as JSON, whole or in parts: a message may have hundreds of thousands of values, and its JSON takes many times their
//! memory.

use serde_json::Value;

use super::Field;

/// A value of a message, of any type.
pub trait Shown {
    /// See [`Field::to_json`].
    fn json(&self) -> Value;
    /// See [`Field::write_json`].
    fn write_json(&self, out: &mut dyn FnMut(&str));
    /// See [`Field::member`].
    fn member(&self, name: &str) -> Option<&dyn Shown>;
    /// See [`Field::item`].
    fn item(&self, index: usize) -> Option<&dyn Shown>;
}

impl<T: Field> Shown for T {
    fn json(&self) -> Value {
        self.to_json()
    }

    fn write_json(&self, out: &mut dyn FnMut(&str)) {
        Field::write_json(self, out);
    }

    fn member(&self, name: &str) -> Option<&dyn Shown> {
        Field::member(self, name)
    }

    fn item(&self, index: usize) -> Option<&dyn Shown> {
        Field::item(self, index)
    }
}

impl<'s> dyn Shown + 's {
    /// The items of a list, from the first on; none of another value.
    pub fn items<'i>(&'i self) -> impl Iterator<Item = &'i (dyn Shown + 'i)> {
        (0..).map_while(|index| self.item(index))
    }

    /// The text of a string.
    pub fn text(&self) -> Option<String> {
        match self.json() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

/// Writes a list or an object, part by part.
pub struct JsonWriter<'o> {
    out: &'o mut dyn FnMut(&str),
    is_first: bool,
    end: &'static str,
}

impl<'o> JsonWriter<'o> {
    /// Begins a list.
    pub fn list(out: &'o mut dyn FnMut(&str)) -> Self {
        out("[");
        Self { out, is_first: true, end: "]" }
    }

    /// Begins an object.
    pub fn object(out: &'o mut dyn FnMut(&str)) -> Self {
        out("{");
        Self { out, is_first: true, end: "}" }
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            (self.out)(",");
        }
    }

    /// Writes an item of a list.
    pub fn item(&mut self, value: &impl Field) {
        self.separate();
        value.write_json(self.out);
    }

    /// Writes a member of an object.
    pub fn member(&mut self, name: &str, value: &impl Field) {
        self.separate();
        write_text(name, self.out);
        (self.out)(":");
        value.write_json(self.out);
    }

    /// Ends the list or object.
    pub fn end(self) {
        (self.out)(self.end);
    }
}

/// Writes a string.
pub(super) fn write_text(text: &str, out: &mut dyn FnMut(&str)) {
    // A text is always JSON.
    out(&serde_json::to_string(text).unwrap_or_default());
}

#[expect(unreachable_pub, reason = "messages are public")]
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Entries, decode_over};
    use super::*;
    use crate::{FieldPath, yaml};

    crate::message! {
        /// A part.
        pub struct Part: "test.Part" {
            /// Its name.
            1 part_name: String = String::new();
            /// Its number.
            2 number: Option<i64> = None;
        }
    }

    crate::message! {
        /// A whole.
        pub struct Whole: "test.Whole" {
            /// Its parts.
            1 parts: Vec<Part> = Vec::new();
            /// Texts by name.
            2 texts: BTreeMap<String, Option<String>> = BTreeMap::new();
            /// Texts by name, again.
            3 entries: Entries<Option<String>> = Entries::default();
            /// A number.
            4 share: f64 = 0.5;
            /// A keyword.
            5 kind as "type": bool = true;
        }
    }

    crate::message! {
        /// Nothing.
        pub struct Empty: "test.Empty" {}
    }

    fn whole() -> Whole {
        let text =
            "parts: [{partName: 'a\"ä'}, {number: 7}]\ntexts: {b: x, a: null}\nentries: {b: x, a: null}\n";
        let mut whole = Whole::default();
        let errors = decode_over(&mut whole, &yaml::parse(text).unwrap().root, FieldPath::root());
        assert!(errors.is_empty(), "{errors:?}");
        whole
    }

    #[test]
    fn what_is_written_in_parts_is_the_json() {
        fn written(value: &impl Field) -> (String, String) {
            let mut text = String::new();
            value.write_json(&mut |part| text.push_str(part));
            (text, value.to_json().to_string())
        }
        let (text, json) = written(&whole());
        assert_eq!(text, json);
        assert!(text.contains("\"entries\":{\"a\":null,\"b\":\"x\"}"), "{text}");
        assert!(text.contains("\"type\":true") && text.contains("\"share\":0.5"), "{text}");
        for (text, json) in [written(&Whole::default()), written(&Empty::default()), written(&Some(1_i64))] {
            assert_eq!(text, json);
        }
    }

    #[test]
    fn parts_are_found_by_their_names() {
        let whole = whole();
        let whole: &dyn Shown = &whole;
        let parts = whole.member("parts").unwrap();
        let names: Vec<_> = parts.items().map(|part| part.member("part_name").unwrap().text()).collect();
        assert_eq!(names, [Some("a\"ä".to_owned()), Some(String::new())]);
        assert_eq!(parts.item(1).unwrap().member("number").unwrap().json(), 7);
        assert!(parts.item(2).is_none() && parts.member("x").is_none() && whole.member("x").is_none());
        assert!(whole.member("type").is_some(), "by its proto name");
    }
}
