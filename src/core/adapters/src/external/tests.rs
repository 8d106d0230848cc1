use super::output::OutputReader;
use mixer_attribute::{SignedDuration, Timestamp};
use mixer_engine::adapter::GeneratedValue;
use mixer_engine::template::{TemplateInfo, put_bytes};

/// The descriptors of a template of the golden cases.
fn template(name: &str) -> TemplateInfo {
    let path = format!(
        "{}/../../../testdata/conformance/adapters-remote/descriptors/{name}.b64",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    TemplateInfo::from_descriptor(name, text.trim()).unwrap()
}

/// A reader of the outputs of `apalab`, and the value of one of them.
fn read(message: &[u8], as_istio_mixer: bool) -> impl Fn(&str) -> Option<GeneratedValue> {
    let template = template("apalab");
    let external = template.external.clone().unwrap();
    let reader = OutputReader::new(&template, &external.schema, external.output.unwrap(), as_istio_mixer);
    let values = reader.read(message).unwrap();
    move |name| {
        let position = template.output_position(name)?;
        values.iter().find(|(at, _)| *at == position).map(|(_, value)| value.clone())
    }
}

#[test]
fn outputs_of_every_type_are_read() {
    // The answer of the case `oop/attribute-generator`.
    let hex = "0a02736f10f7ffffffffffffffff0119000000000000044020012a060a016b12017632060a040a0000093a0a0a0808011080cab5ee01\
               42080a0608a5d4b0e1054a070a05642e6e2e7352040a0276765a0808021080cab5ee01620608a5d4b0e105680770077d05000000\
               8501faffffff8d010000003f92010272319a010a0a08687474703a2f2f75a201050a03614062aa01040a000007b80108";
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let value = read(&bytes, true);
    let time = Timestamp { seconds: 1_546_398_245, nanos: 0 };
    let expected = [
        ("s", GeneratedValue::String("so".to_owned())),
        ("i64", GeneratedValue::Int64(-9)),
        ("d", GeneratedValue::Double(2.5)),
        ("b", GeneratedValue::Bool(true)),
        ("ms", GeneratedValue::StringMap(vec![("k".to_owned(), "v".to_owned())])),
        ("ip", GeneratedValue::IpAddress([10, 0, 0, 9].into())),
        ("dur", GeneratedValue::Duration(SignedDuration::from_millis(1500))),
        ("ts", GeneratedValue::Timestamp(time)),
        ("dns", GeneratedValue::String("d.n.s".to_owned())),
        ("gd", GeneratedValue::Duration(SignedDuration::from_millis(2500))),
        ("gt", GeneratedValue::Timestamp(time)),
        ("i32", GeneratedValue::Int64(7)),
        ("si64", GeneratedValue::Int64(-4)),
        ("f32", GeneratedValue::Int64(5)),
        ("sf32", GeneratedValue::Int64(-6)),
        ("f", GeneratedValue::Double(0.5)),
        ("u64", GeneratedValue::Int64(8)),
    ];
    for (name, expected) in expected {
        assert_eq!(value(name), Some(expected), "{name}");
    }
}

#[test]
fn what_is_not_sent_is_absent_or_zero() {
    let as_istio = read(b"", true);
    let own = read(b"", false);
    for (name, zero) in [
        ("b", GeneratedValue::Bool(false)),
        ("i64", GeneratedValue::Int64(0)),
        ("d", GeneratedValue::Double(0.0)),
    ] {
        assert_eq!((as_istio(name), own(name)), (None, Some(zero)), "{name}");
    }
    for name in ["s", "ms", "ip", "dur"] {
        assert_eq!((as_istio(name), own(name)), (None, None), "{name}");
    }
}

/// An entry of the field `ms` of `apalab`.
fn entry(key: &str, value: &str) -> Vec<u8> {
    let mut entry = Vec::new();
    put_bytes(1, key.as_bytes(), &mut entry);
    put_bytes(2, value.as_bytes(), &mut entry);
    let mut field = Vec::new();
    put_bytes(5, &entry, &mut field);
    field
}

#[test]
fn the_last_entry_of_a_key_counts() {
    let message = [entry("b", "1"), entry("a", "2"), entry("b", "3"), entry("b", "4")].concat();
    let expected = [("a", "2"), ("b", "4")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(read(&message, true)("ms"), Some(GeneratedValue::StringMap(expected.to_vec())));
}

/// A map of the longest answer is read in milliseconds: a worker does nothing else meanwhile. Looked through for each of its entries it takes half a
/// minute.
#[test]
fn a_map_of_many_entries_is_read_at_once() {
    let message: Vec<u8> = (0..200_000).rev().flat_map(|at| entry(&format!("{at:06}"), "")).collect();
    let began = std::time::Instant::now();
    let Some(GeneratedValue::StringMap(entries)) = read(&message, true)("ms") else { panic!("it is a map") };
    assert_eq!(entries.len(), 200_000);
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

/// The field `ts` of `apalab` with its value in so many messages more than one.
fn nested_time(depth: usize) -> Vec<u8> {
    let mut backwards = vec![5, 0x08];
    let mut wrap = |tag: u8| {
        let mut length = backwards.len();
        let mut prefix = vec![tag];
        while length >= 0x80 {
            prefix.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        prefix.push(length as u8);
        backwards.extend(prefix.iter().rev());
    };
    (0..depth).for_each(|_| wrap(0x0a));
    // Field 8.
    wrap(0x42);
    backwards.reverse();
    backwards
}

/// As many levels as the longest answer has: read one in the other, they would take the stack of the worker.
#[test]
fn values_are_nested_once() {
    let template = template("apalab");
    let external = template.external.clone().unwrap();
    let reader = OutputReader::new(&template, &external.schema, external.output.unwrap(), true);
    let time = Timestamp { seconds: 5, nanos: 0 };
    for depth in [0, 1] {
        assert_eq!(read(&nested_time(depth), true)("ts"), Some(GeneratedValue::Timestamp(time)), "{depth}");
    }
    for depth in [2, 3, 62_000] {
        let error = reader.read(&nested_time(depth)).unwrap_err();
        assert_eq!(error.to_string(), "proto: a time is nested too deeply", "{depth}");
    }
}

/// ControlZ, the log and callers get at most 1 KiB of what an adapter says, whatever it quotes.
#[test]
fn texts_of_adapters_are_shortened() {
    use mixer_wire::istio::mixer::adapter::model::v1beta1 as model;
    use prost::Message as _;

    let quotas = [("é".repeat(100_000), model::quota_result::Result::default())].into();
    let answer = model::QuotaResult { quotas }.encode_to_vec().into();
    let error = super::read_by(Ok(answer), |answer| super::granted_of(answer, "req")).unwrap_err();
    assert!(error.starts_with("remote server did not respond with the requested quota 'req'. "), "{error}");
    assert!(
        error.ends_with("é…") && (1000..=1024 + '…'.len_utf8()).contains(&error.len()),
        "{}",
        error.len()
    );
    // Once more, nothing changes.
    assert_eq!(super::read_by(Err::<_, String>(error.clone()), |_| Ok(())).unwrap_err(), error);
    let of_session = super::session::refusal(3, &"x".repeat(200_000));
    assert!(of_session.starts_with("3/xxx") && of_session.len() <= 1024 + '…'.len_utf8());
}

#[test]
fn malformed_messages_are_errors() {
    let template = template("apalab");
    let external = template.external.clone().unwrap();
    let reader = OutputReader::new(&template, &external.schema, external.output.unwrap(), false);
    let cases: [&[u8]; 8] = [
        b"\x0a\x05ab",
        b"\x0a\x01\xff",
        b"\x08",
        b"\x00\x00",
        b"\x0b",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x32\x03\x0a\x01x",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    ];
    for message in cases {
        assert!(reader.read(message).is_err(), "{message:x?}");
    }
    // A field of another type is skipped, as after a change of the template.
    assert!(reader.read(b"\x08\x01").unwrap().iter().all(|(position, _)| *position != 0));
}

/// A status about the request, which a caller may bring about, is no failure of the adapter.
#[test]
fn statuses_about_a_request_are_told_from_failures() {
    let is_about = |code: &str| {
        super::connection::is_about_request(&format!(
            "rpc error: code = {code} desc = code = InvalidArgument"
        ))
    };
    for code in [
        "InvalidArgument",
        "OutOfRange",
        "FailedPrecondition",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
    ] {
        assert!(is_about(code), "{code}");
    }
    for code in [
        "Unknown",
        "Internal",
        "Unavailable",
        "DeadlineExceeded",
        "Unauthenticated",
        "Unimplemented",
        "Aborted",
        "Canceled",
        "DataLoss",
    ] {
        assert!(!is_about(code), "{code}");
    }
    assert!(!super::connection::is_about_request("no answer"));
}

#[test]
fn connections_that_can_never_answer_are_errors() {
    use super::connection::{check, default_port, no_time};
    use mixer_engine::snapshot::decode::Connection as Settings;

    let at = |address: &str| Settings { address: address.to_owned(), ..Settings::default() };
    for (address, why) in [
        ("gate.example:9070", ""),
        ("unix:/run/gate", ""),
        (":9070", ""),
        ("gate.example:99999", "invalid address `gate.example:99999`: "),
        ("http://gate.example:9070", "an address is HOST:PORT, without a scheme"),
        ("", "empty connection address"),
    ] {
        let found = check(&at(address)).map_err(|(field, text)| (field.to_string(), text));
        match why {
            "" => assert_eq!(found, Ok(()), "{address}"),
            why => assert!(
                found.is_err_and(|(field, text)| field == "address" && text.contains(why)),
                "{address}"
            ),
        }
    }
    assert_eq!(default_port(&at("gate.example")), Some(80));
    assert_eq!(default_port(&at("gate.example:80")), None);
    for (timeout, is_error) in [(None, false), (Some(1), false), (Some(0), true), (Some(-1), true)] {
        let timeout = timeout.map(SignedDuration::from_secs);
        assert_eq!(no_time(&Settings { timeout, ..at(":1") }).is_some(), is_error, "{timeout:?}");
    }
}
