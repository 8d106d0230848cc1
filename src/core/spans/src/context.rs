//! Trace contexts in headers: B3 (multiple and single header), W3C `traceparent` and Jaeger's `uber-trace-id`.

use http::{HeaderMap, HeaderName, HeaderValue};

/// A trace id; never 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub u128);

impl std::fmt::Debug for TraceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// 16 hexadecimal digits, or 32 for an id of more than 64 bits.
impl std::fmt::Display for TraceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 >> 64 == 0 { write!(f, "{:016x}", self.0) } else { write!(f, "{:032x}", self.0) }
    }
}

/// The identity of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace id.
    pub trace: TraceId,
    /// The span id; never 0.
    pub span: u64,
    /// The span id of the parent; 0 means none.
    pub parent: u64,
    /// The sampling decision; `None` leaves it to the receiver.
    pub sampled: Option<bool>,
}

/// The format of a context in headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `x-b3-traceid` and its siblings.
    B3,
    /// `traceparent`.
    TraceParent,
    /// `uber-trace-id`.
    Uber,
}

/// The context in the headers of a call: B3, else W3C, else Jaeger. An invalid context counts as absent.
pub fn extract(headers: &HeaderMap) -> Option<SpanContext> {
    b3_multi(headers)
        .or_else(|| b3_single(text(headers, "b3")?))
        .or_else(|| trace_parent(text(headers, "traceparent")?))
        .or_else(|| uber(text(headers, "uber-trace-id")?))
}

/// Writes a context into headers.
pub fn inject(context: &SpanContext, format: Format, headers: &mut HeaderMap) {
    let sampled = context.sampled == Some(true);
    let mut set = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    match format {
        Format::B3 => {
            set("x-b3-traceid", context.trace.to_string());
            set("x-b3-spanid", format!("{:016x}", context.span));
            if context.parent != 0 {
                set("x-b3-parentspanid", format!("{:016x}", context.parent));
            }
            set("x-b3-sampled", if sampled { "1" } else { "0" }.to_owned());
        }
        Format::TraceParent => set(
            "traceparent",
            format!("00-{:032x}-{:016x}-{:02x}", context.trace.0, context.span, u8::from(sampled)),
        ),
        Format::Uber => set("uber-trace-id", uber_text(context)),
    }
}

/// `trace:span:parent:flags`, as Jaeger prints it.
pub(super) fn uber_text(context: &SpanContext) -> String {
    let sampled = u8::from(context.sampled == Some(true));
    let TraceId(trace) = context.trace;
    format!("{trace:x}:{:x}:{:x}:{sampled:x}", context.span, context.parent)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// At most `digits` hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_valid = !text.is_empty() && text.len() <= digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_valid.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

fn trace_id(text: &str) -> Option<TraceId> {
    hex(text, 32).filter(|id| *id != 0).map(TraceId)
}

fn span_id(text: &str) -> Option<u64> {
    hex(text, 16).and_then(|id| u64::try_from(id).ok())
}

fn b3_multi(headers: &HeaderMap) -> Option<SpanContext> {
    let debug = text(headers, "x-b3-flags") == Some("1");
    let sampled = match text(headers, "x-b3-sampled") {
        Some(flag) if flag == "1" || flag.eq_ignore_ascii_case("true") => Some(true),
        Some(flag) if flag == "0" || flag.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    };
    Some(SpanContext {
        trace: trace_id(text(headers, "x-b3-traceid")?)?,
        span: span_id(text(headers, "x-b3-spanid")?).filter(|id| *id != 0)?,
        parent: text(headers, "x-b3-parentspanid").and_then(span_id).unwrap_or(0),
        sampled: if debug { Some(true) } else { sampled },
    })
}

/// `TRACE-SPAN[-SAMPLED[-PARENT]]`. A sampling decision alone (`0`) has no trace.
fn b3_single(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (trace, span) = (trace_id(parts.next()?)?, span_id(parts.next()?).filter(|id| *id != 0)?);
    let sampled = match parts.next() {
        Some("1" | "d") => Some(true),
        Some("0") => Some(false),
        _ => None,
    };
    Some(SpanContext { trace, span, parent: parts.next().and_then(span_id).unwrap_or(0), sampled })
}

/// `VERSION-TRACE-SPAN-FLAGS`; later versions may append fields.
fn trace_parent(text: &str) -> Option<SpanContext> {
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = [version.len(), trace.len(), span.len(), flags.len()];
    if lengths != [2, 32, 16, 2] || version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    hex(version, 2)?;
    Some(SpanContext {
        trace: trace_id(trace)?,
        span: span_id(span).filter(|id| *id != 0)?,
        parent: 0,
        sampled: Some(hex(flags, 2)? & 1 == 1),
    })
}

/// `trace:span:parent:flags`.
fn uber(text: &str) -> Option<SpanContext> {
    let mut parts = text.split(':');
    let context = SpanContext {
        trace: trace_id(parts.next()?)?,
        span: span_id(parts.next()?).filter(|id| *id != 0)?,
        parent: span_id(parts.next()?)?,
        // The second bit is the debug flag, which implies sampling.
        sampled: Some(hex(parts.next()?, 2)? & 3 != 0),
    };
    parts.next().is_none().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn context(sampled: Option<bool>, parent: u64) -> Option<SpanContext> {
        Some(SpanContext { trace: TraceId(0xabc), span: 0xdef, parent, sampled })
    }

    const W3C: &str = "00-00000000000000000000000000000abc-0000000000000def-01";

    #[test]
    fn every_format_is_decoded() {
        let b3 = ("x-b3-traceid", "0000000000000abc");
        let span = ("x-b3-spanid", "0000000000000def");
        for (pairs, wanted) in [
            (&[b3, span][..], context(None, 0)),
            (&[b3, span, ("x-b3-sampled", "1"), ("x-b3-parentspanid", "7")], context(Some(true), 7)),
            (&[b3, span, ("x-b3-sampled", "True")], context(Some(true), 0)),
            (&[b3, span, ("x-b3-sampled", "0")], context(Some(false), 0)),
            (&[b3, span, ("x-b3-sampled", "0"), ("x-b3-flags", "1")], context(Some(true), 0)),
            (&[("b3", "0000000000000abc-0000000000000def-1-7")], context(Some(true), 7)),
            (&[("b3", "0000000000000abc-0000000000000def-d")], context(Some(true), 0)),
            (&[("b3", "0000000000000abc-0000000000000def")], context(None, 0)),
            (&[("traceparent", W3C)], context(Some(true), 0)),
            (&[("uber-trace-id", "abc:def:7:1")], context(Some(true), 7)),
            (&[("uber-trace-id", "abc:def:0:0")], context(Some(false), 0)),
            // The first valid format counts.
            (&[b3, span, ("uber-trace-id", "1:2:0:1")], context(None, 0)),
            (&[b3, ("uber-trace-id", "abc:def:0:1")], context(Some(true), 0)),
        ] {
            assert_eq!(extract(&headers(pairs)), wanted, "{pairs:?}");
        }
    }

    #[test]
    fn an_invalid_context_is_absent() {
        for (name, value) in [
            ("b3", "0"),
            ("b3", "1"),
            ("b3", ""),
            ("b3", "xyz-def-1"),
            ("b3", "0-def-1"),
            ("b3", "abc-0-1"),
            ("traceparent", "00-abc-def-01"),
            ("traceparent", "ff-00000000000000000000000000000abc-0000000000000def-01"),
            ("traceparent", "00-00000000000000000000000000000000-0000000000000def-01"),
            ("traceparent", "00-00000000000000000000000000000abc-0000000000000def-01-more"),
            ("uber-trace-id", "abc:def:0"),
            ("uber-trace-id", "abc:def:0:1:2"),
            ("uber-trace-id", "abc:+1:0:1"),
            ("uber-trace-id", "1234567890123456789012345678901234:1:0:1"),
        ] {
            assert_eq!(extract(&headers(&[(name, value)])), None, "{name}: {value}");
        }
    }

    #[test]
    fn injected_contexts_are_extracted() {
        let context = SpanContext {
            trace: TraceId(0x1234_5678_9abc_def0_0011_2233_4455_6677),
            span: 0x8899_aabb_ccdd_eeff,
            parent: 0,
            sampled: Some(true),
        };
        for format in [Format::B3, Format::TraceParent, Format::Uber] {
            let mut written = HeaderMap::new();
            inject(&context, format, &mut written);
            assert_eq!(extract(&written), Some(context), "{format:?}");
        }
    }
}
