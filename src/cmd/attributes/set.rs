//! A set of attributes, and the flags that fill it.

use super::value::{AttributeType, AttributeValue};

/// Attributes by name, in order of first occurrence.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AttributeSet {
    entries: Vec<(String, AttributeValue)>,
}

impl AttributeSet {
    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &AttributeValue)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Adds an attribute, or replaces the one of the same name.
    pub(super) fn set(&mut self, name: &str, value: AttributeValue) {
        match self.entries.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.entries.push((name.to_owned(), value)),
        }
    }

    /// Adds the attributes of a flag: `name=value,name=value`; may be empty. Errors: the first invalid attribute.
    pub(crate) fn add_flag(&mut self, value_type: AttributeType, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        for segment in text.split(',') {
            let (name, value) = segment
                .split_once('=')
                .ok_or_else(|| format!("attribute value {segment} does not include an = sign"))?;
            if name.is_empty() {
                return Err(format!("attribute value {segment} does not contain a valid name"));
            }
            self.set(name, value_type.parse(value)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_split_at_every_comma_and_the_first_equal_sign() {
        let mut set = AttributeSet::default();
        set.add_flag(AttributeType::String, "a=b=c, d =e").unwrap();
        set.add_flag(AttributeType::Int64, "a=5").unwrap();
        let entries: Vec<_> = set.iter().collect();
        assert_eq!(entries[0], ("a", &AttributeValue::Int64(5)), "the later flag wins, type included");
        assert_eq!(entries[1], (" d ", &AttributeValue::String("e".to_owned())));
        let refused = |sense, text: &str| AttributeSet::default().add_flag(sense, text).unwrap_err();
        assert_eq!(refused(AttributeType::String, "foo"), "attribute value foo does not include an = sign");
        assert_eq!(
            refused(AttributeType::String, "=foo"),
            "attribute value =foo does not contain a valid name"
        );
        assert_eq!(refused(AttributeType::String, "a=1,"), "attribute value  does not include an = sign");
        assert_eq!(
            refused(AttributeType::StringMap, "m=a:b;"),
            " is not a valid key/value pair in the form key:value"
        );
        assert_eq!(
            refused(AttributeType::Bytes, "b=1:100"),
            "strconv.ParseUint: parsing \"100\": value out of range"
        );
    }
}
