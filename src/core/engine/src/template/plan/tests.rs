use super::*;
use crate::template::Name;

fn steps(steps: Vec<Step>) -> Plan {
    Plan { steps: steps.into() }
}

fn leaf(number: u32, leaf: usize, form: Form) -> Step {
    Step::Leaf { number, leaf, form }
}

/// The message of an instance called `n`, without its name.
fn written(plan: &Plan, values: &[Option<Value<'_>>]) -> Vec<u8> {
    let mut out = Vec::new();
    plan.write("n", values, &mut out).unwrap();
    let name = b"\xfa\xd2\xe4\x93\x02\x01n";
    assert!(out.ends_with(name), "{out:x?}");
    out.truncate(out.len() - name.len());
    out
}

#[test]
fn every_form_is_written_as_protobuf_defines_it() {
    let colors: Arc<[(Name, i32)]> = Arc::new([("RED".into(), 0), ("BLUE".into(), 5)]);
    let time = Timestamp { seconds: 1, nanos: 2 };
    let duration = SignedDuration::from_nanos(-1_500_000_000);
    let cases: Vec<(Form, Value<'_>, &[u8])> = vec![
        (Form::Int64, Value::Int64(-1), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (Form::Int32, Value::Int64(-1), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (Form::Uint32, Value::Int64(-1), b"\x08\xff\xff\xff\xff\x0f"),
        (Form::Sint32, Value::Int64(-2), b"\x08\x03"),
        (Form::Sint64, Value::Int64(3), b"\x08\x06"),
        (Form::Fixed32, Value::Int64(-1), b"\x0d\xff\xff\xff\xff"),
        (Form::Fixed64, Value::Int64(1), b"\x09\x01\0\0\0\0\0\0\0"),
        (Form::Bool, Value::Bool(false), b"\x08\0"),
        (Form::Double, Value::Double(1.5), b"\x09\0\0\0\0\0\0\xf8\x3f"),
        (Form::Float, Value::Double(1.5), b"\x0d\0\0\xc0\x3f"),
        (Form::Text, Value::String(b"ab"), b"\x0a\x02ab"),
        (Form::Text, Value::String(b"\xff"), b"\x0a\x03\xef\xbf\xbd"),
        (Form::Enum(colors.clone()), Value::String(b"BLUE"), b"\x08\x05"),
        (Form::Enum(colors.clone()), Value::Int64(7), b"\x08\x07"),
        (Form::Any(ValueType::String), Value::String(b"a"), b"\x0a\x03\x0a\x01a"),
        (Form::Any(ValueType::Int64), Value::Int64(3), b"\x0a\x02\x10\x03"),
        (Form::Any(ValueType::Bool), Value::Bool(true), b"\x0a\x02\x20\x01"),
        (Form::Any(ValueType::IpAddress), Value::Bytes(b"\x01\x02"), b"\x0a\x06\x2a\x04\x0a\x02\x01\x02"),
        (Form::Any(ValueType::Uri), Value::String(b"u"), b"\x0a\x05\x52\x03\x0a\x01u"),
        (Form::Any(ValueType::DnsName), Value::String(b"d"), b"\x0a\x05\x4a\x03\x0a\x01d"),
        (Form::Any(ValueType::EmailAddress), Value::String(b"e"), b"\x0a\x05\x42\x03\x0a\x01e"),
        (Form::Typed(ValueType::Timestamp), Value::Timestamp(time), b"\x0a\x06\x0a\x04\x08\x01\x10\x02"),
        (
            Form::Typed(ValueType::Duration),
            Value::Duration(duration),
            b"\x0a\x18\x0a\x16\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x80\xb6\xca\x91\xfe\xff\xff\xff\xff\x01",
        ),
    ];
    for (form, value, expected) in cases {
        let plan = steps(vec![leaf(1, 0, form.clone())]);
        assert_eq!(written(&plan, &[Some(value)]), expected, "{form:?} {value:?}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_an_error() {
    let colors: Arc<[(Name, i32)]> = Arc::new([("RED".into(), 0)]);
    let plan = steps(vec![leaf(1, 0, Form::Enum(colors))]);
    let error = plan.write("n", &[Some(Value::String(b"PINK"))], &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "unknown value: PINK, enum:[RED]");
    let plan = steps(vec![leaf(1, 0, Form::Text)]);
    assert_eq!(plan.write("n", &[Some(Value::Int64(1))], &mut Vec::new()), Err(PlanError::Mismatch));
}

#[test]
fn messages_entries_and_lists_have_minimal_lengths() {
    let constant = |encoded: &[u8]| Step::Constant { encoded: encoded.into(), typed: None };
    let plan = steps(vec![
        Step::Message { number: 1, steps: [constant(b"\x08\x01")].into() },
        Step::Entry { number: 2, key: b"\x0a\x01k"[..].into(), value: Box::new(leaf(2, 0, Form::Text)) },
        Step::Packed {
            number: 3,
            items: [PackedItem::Constant(b"\x05"[..].into()), PackedItem::Leaf(1, Form::Int64)].into(),
        },
        Step::Message { number: 4, steps: Box::default() },
    ]);
    let values = [Some(Value::String(b"v")), Some(Value::Int64(300))];
    assert_eq!(
        written(&plan, &values),
        b"\x0a\x02\x08\x01\x12\x06\x0a\x01k\x12\x01v\x1a\x03\x05\xac\x02\x22\0"
    );
    // Lengths of one, two and three bytes.
    for len in [127, 128, 16_383, 16_384] {
        let text = vec![b'x'; len];
        let plan = steps(vec![Step::Message { number: 1, steps: [leaf(1, 0, Form::Text)].into() }]);
        let mut inner = Vec::new();
        put_bytes(1, &text, &mut inner);
        let mut expected = Vec::new();
        put_bytes(1, &inner, &mut expected);
        assert_eq!(written(&plan, &[Some(Value::String(&text))]), expected, "{len}");
    }
}

#[test]
fn types_are_those_of_fields_that_take_any_value() {
    let entry = |key: &[u8], value| Step::Entry { number: 2, key: key.into(), value: Box::new(value) };
    let typed = Step::Constant { encoded: [].into(), typed: Some((2, ValueType::Double)) };
    let plan = steps(vec![
        leaf(1, 0, Form::Any(ValueType::Int64)),
        entry(b"\x0a\x01a", typed),
        entry(b"\x0a\x01b", leaf(2, 1, Form::Text)),
        Step::Message { number: 3, steps: [leaf(1, 2, Form::Text)].into() },
    ]);
    assert_eq!(plan.inferred_types(), b"\x08\x02\x12\x05\x0a\x01a\x10\x03");
}
