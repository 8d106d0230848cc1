//! Data of metrics.

use std::borrow::Cow;

use form_urlencoded::byte_serialize;

use mixer_attribute::Value;
use mixer_attribute::text::push_text;
use mixer_base::decimal;
use mixer_delivery::Item;
use mixer_engine::adapter::{BoundInstance, Instance};

use super::params::{Params, Unit};
use crate::cut::cut;

/// The value of a dimension without text: the service takes none that is empty.
const EMPTY: &str = "-";

/// A datum on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Datum {
    /// Milliseconds since 1970.
    pub(super) at: i64,
    /// A parameter a line, `NAME=VALUE`, without what comes before every name.
    pub(super) lines: Box<str>,
}

impl Item for Datum {
    fn size(&self) -> usize {
        size_of::<Self>() + self.lines.len()
    }
}

/// How instances become data.
pub(super) struct MetricTemplate {
    value: Option<usize>,
    unit: Unit,
    /// Name and unit.
    head: String,
    /// Encoded names and positions of the dimensions.
    dimensions: Vec<(String, usize)>,
}

impl MetricTemplate {
    pub(super) fn new(params: &Params, instance: &BoundInstance) -> Self {
        let unit = params.metric_info.get(&*instance.name).map(|info| info.unit).unwrap_or_default();
        let name = encoded(instance.name.as_bytes());
        let head = format!("MetricName={name}\nUnit={}\n", encoded(service_name(unit).as_bytes()));
        let dimensions = instance.entries("dimensions").map(|(key, at)| {
            let mut key = key.as_bytes().to_vec();
            printable(&mut key);
            (encoded(&key), at)
        });
        Self { value: instance.position("value"), unit, head, dimensions: dimensions.collect() }
    }

    /// The datum of an instance at a time, in milliseconds since 1970. Errors: its value is no number that the service takes.
    pub(super) fn datum(&self, instance: &Instance<'_>, at: i64) -> Result<Datum, Cow<'static, str>> {
        let value = self.number(self.value.and_then(|at| instance.value(at)))?;
        let mut lines = format!("{}Value={}\n", self.head, decimal::plain(value));
        if self.dimensions.is_empty() {
            lines.push_str("Dimensions=\n");
        }
        for (index, (name, position)) in self.dimensions.iter().enumerate() {
            let mut text = Vec::new();
            if let Some(value) = instance.value(*position) {
                push_text(&mut text, value);
            }
            cut(&mut text);
            printable(&mut text);
            let number = index + 1;
            lines.push_str(&format!("Dimensions.member.{number}.Name={name}\n"));
            lines.push_str(&format!("Dimensions.member.{number}.Value={}\n", encoded(&text)));
        }
        Ok(Datum { at, lines: lines.into() })
    }

    fn number(&self, value: Option<Value<'_>>) -> Result<f64, Cow<'static, str>> {
        let number = match value {
            Some(Value::Int64(number)) => number as f64,
            Some(Value::Double(number)) => number,
            Some(Value::Duration(duration)) => {
                let unit = match self.unit {
                    Unit::Seconds => 1_000_000_000,
                    Unit::Microseconds => 1_000,
                    _ => 1_000_000,
                };
                (duration.nanos / unit) as f64
            }
            Some(Value::String(text)) => {
                let text = String::from_utf8_lossy(text);
                let parsed = text.parse::<f64>().ok();
                // The value may be a secret, which the log must not have.
                parsed.ok_or_else(|| format!("can't parse a string of {} bytes into float", text.len()))?
            }
            _ => return Err("it has no value".into()),
        };
        // The limits of the service.
        let is_taken = number == 0.0 || (2_f64.powi(-360)..=2_f64.powi(360)).contains(&number.abs());
        if is_taken { Ok(number) } else { Err("its value is not between 2^-360 and 2^360".into()) }
    }
}

/// The unit as the service calls it: Istio Mixer sends its own name of a rate, which the service refuses.
fn service_name(unit: Unit) -> String {
    unit.name().replace('_', "/")
}

/// Makes a text one that the service takes: printable ASCII with at least one character that is no space, and no colon at its beginning. One
/// text that it does not take would cost all data of a request.
fn printable(text: &mut Vec<u8>) {
    text.iter_mut().filter(|byte| !matches!(byte, b' '..=b'~')).for_each(|byte| *byte = b'_');
    if text.iter().all(|byte| *byte == b' ') {
        text.clear();
        text.extend_from_slice(EMPTY.as_bytes());
    }
    if let Some(first) = text.first_mut().filter(|first| **first == b':') {
        *first = b'_';
    }
}

fn encoded(text: &[u8]) -> String {
    byte_serialize(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_those_that_the_service_takes() {
        for (text, expected) in
            [("a b&c", "a b&c"), ("", "-"), ("   ", "-"), (":80", "_80"), ("a\nb\u{7f}é", "a_b___")]
        {
            let mut bytes = text.as_bytes().to_vec();
            printable(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{text:?}");
        }
    }
}
