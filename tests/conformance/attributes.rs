//! The `attributes` suite; its README.md states the schema. The `rpc` cases need a server and run elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bumpalo::Bump;

use mixer_attribute::request::ReportRequest;
use mixer_attribute::{
    AttributeBag, CompressedAttributes, GLOBAL_WORDS, OwnedAttributes, OwnedValue, Reads, ReportRecords,
    SignedDuration, Timestamp, Value, ValueType, Vocabulary,
};
use mixer_wire::istio::mixer::v1 as proto;
use prost::Message as _;
use serde_json::Value as Json;

use crate::case::{Case, json_lines, selected};

/// Runs the cases in `dir` whose id contains the filter.
pub(crate) fn run(dir: &Path, filter: Option<&str>) -> Vec<Case> {
    let cases = match json_lines(&dir.join("cases.jsonl")) {
        Ok(cases) => cases,
        Err(error) => return vec![Case::new("cases.jsonl", Err(error))],
    };
    let mut results = Vec::new();
    for case in &cases {
        let id = text(case, "id");
        let run = match text(case, "kind") {
            "decode" => decode,
            "encode" => encode,
            "report" => report,
            "referenced" => referenced,
            "rpc" => continue,
            _ => unknown,
        };
        if selected(id, filter) {
            results.push(Case::new(id, run(case)));
        }
    }
    results
}

fn unknown(case: &Json) -> Result<(), String> {
    Err(format!("unknown kind `{}`", text(case, "kind")))
}

/// Whether `check` succeeds for the expectation or one of its alternatives; the error is that of the expectation.
fn any(case: &Json, check: impl Fn(&Json) -> Result<(), String>) -> Result<(), String> {
    let first = check(&case["expect"]);
    let others = case["accept"].as_array().into_iter().flatten();
    if first.is_err() && others.into_iter().any(|other| check(other).is_ok()) { Ok(()) } else { first }
}

fn decode(case: &Json) -> Result<(), String> {
    any(case, |expect| decode_one(&bytes(case, "hex")?, expect))
}

fn decode_one(body: &[u8], expect: &Json) -> Result<(), String> {
    let arena = Bump::new();
    let decoded = CompressedAttributes::decode(body, &arena);
    if text(expect, "decode") == "error" {
        return match decoded {
            Err(_) => Ok(()),
            Ok(_) => Err("accepted, should be refused".to_owned()),
        };
    }
    let decoded = decoded.map_err(|error| format!("refused: {error}"))?;
    let plain = Vocabulary::builder().build();
    shows(&AttributeBag::new(&decoded, None, &plain, &arena), expect)?;
    let full = vocabulary_of(&AttributeBag::new(&decoded, None, &plain, &arena), &[]);
    let bag = AttributeBag::new(&decoded, None, &full, &arena);
    by_slot(&bag)?;
    shows(&bag, expect)?;
    strict(body, expect)
}

/// Applies the message as a later record of a delta report and compares.
fn strict(body: &[u8], expect: &Json) -> Result<(), String> {
    if expect["strict"] == "any" {
        return Ok(());
    }
    let arena = Bump::new();
    let record = CompressedAttributes::decode(body, &arena).map_err(|error| error.to_string())?;
    let plain = Vocabulary::builder().build();
    let vocabulary = vocabulary_of(&AttributeBag::new(&record, None, &plain, &arena), &[]);
    let mut bag = AttributeBag::empty(&vocabulary, &arena);
    let result = bag.apply_delta(&record, None).map_err(|error| error.to_string());
    match (expect["strict_error"].as_str(), result) {
        (Some(wanted), Err(error)) => {
            same("strict error", &error, &wanted.to_owned())?;
            same_attributes("attributes after a strict error", owned(&bag), OwnedAttributes::new())
        }
        (None, Ok(())) => {
            by_slot(&bag)?;
            let wanted = match &expect["strict_attributes"] {
                Json::Null => &expect["attributes"],
                attributes => attributes,
            };
            same_attributes("strict attributes", owned(&bag), attributes(wanted)?)
        }
        (wanted, got) => Err(format!("strict: got {got:?}, want {wanted:?}")),
    }
}

/// Compares the bag with the expectation, name by name.
fn shows(bag: &AttributeBag<'_>, expect: &Json) -> Result<(), String> {
    same_attributes("attributes", owned(bag), attributes(&expect["attributes"])?)?;
    let unreadable: BTreeSet<String> =
        bag.all().iter().filter(|named| named.value.is_none()).map(|named| lossy(named.name)).collect();
    let wanted: BTreeSet<String> = expect["unreadable"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|n| Some(n.as_str()?.to_owned()))
        .collect();
    same("unreadable", &unreadable, &wanted)
}

/// Access by slot equals access by name for every name of the vocabulary.
fn by_slot(bag: &AttributeBag<'_>) -> Result<(), String> {
    let vocabulary = bag.vocabulary();
    let all = bag.all();
    for (name, _) in vocabulary.declared() {
        let slot = vocabulary.slot(name.as_bytes()).ok_or("a declared name has no slot")?;
        let by_name = all.iter().find(|named| named.name == name.as_bytes());
        let value = by_name.and_then(|named| named.value).map(OwnedValue::from);
        same(name, &bag.peek(slot).map(OwnedValue::from).map(bits), &value.map(bits))?;
        same(
            name,
            &bag.contains(slot),
            &by_name.is_some_and(|named| named.value.is_some() || bag.contains(slot)),
        )?;
    }
    Ok(())
}

/// Doubles are compared bitwise.
fn bits(value: OwnedValue) -> OwnedValue {
    match value {
        OwnedValue::Double(number) => {
            OwnedValue::String(format!("double {:016x}", number.to_bits()).into_bytes())
        }
        other => other,
    }
}

/// A vocabulary with every UTF-8 name of the bag, and further names.
fn vocabulary_of(bag: &AttributeBag<'_>, more: &[&str]) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for named in bag.all() {
        if let Ok(name) = std::str::from_utf8(named.name) {
            builder.declare(name, ValueType::String);
        }
    }
    for name in more {
        builder.declare(name, ValueType::String);
    }
    builder.build()
}

fn encode(case: &Json) -> Result<(), String> {
    let wanted = attributes(&case["attributes"])?;
    let count = u32::try_from(case["global_word_count"].as_u64().unwrap_or(0)).map_err(|e| e.to_string())?;
    let encoded = wanted.to_bytes(count);
    let (arena, vocabulary) = (Bump::new(), Vocabulary::builder().build());
    let bag = AttributeBag::decode(&encoded, None, &vocabulary, &arena).map_err(|error| error.to_string())?;
    same_attributes("decoded again", OwnedAttributes::from_bag(&bag), wanted)?;
    any(case, |expect| same("encoding", &hex(&encoded).as_str(), &text(expect, "canonical_hex")))
}

fn report(case: &Json) -> Result<(), String> {
    let request = report_request(case)?;
    let arena = Bump::new();
    let request = ReportRequest::decode(&request, &arena).map_err(|error| error.to_string())?;
    let vocabulary = Vocabulary::builder().build();
    let mut records = ReportRecords::new(&request, &vocabulary, &arena);
    let expected = case["expect"].get("records").and_then(Json::as_array);
    for (i, expect) in expected.into_iter().flatten().enumerate() {
        let record = records.next().ok_or(format!("record {i} is missing"))?;
        match (expect["error"].as_str(), record) {
            (Some(wanted), Err(error)) => {
                same(&format!("error of record {i}"), &error.to_string(), &wanted.to_owned())?
            }
            (None, Ok(bag)) => {
                shows(bag, expect).map_err(|error| format!("record {i}: {error}"))?;
                // Generated attributes of this bag must not appear in the next.
                bag.set(vocabulary.reporter_kind(), Value::String(b"generated"));
            }
            (wanted, Err(error)) => return Err(format!("record {i}: got {error}, want {wanted:?}")),
            (wanted, Ok(_)) => return Err(format!("record {i} decoded, want {wanted:?}")),
        }
    }
    match records.next() {
        None => Ok(()),
        Some(_) => Err("more records than expected".to_owned()),
    }
}

/// The serialized ReportRequest of a case.
fn report_request(case: &Json) -> Result<Vec<u8>, String> {
    let mut request = Vec::new();
    for record in case["records"].as_array().into_iter().flatten() {
        let record = unhex(record.as_str().unwrap_or_default())?;
        prost::encoding::bytes::encode(1, &record, &mut request);
    }
    for word in case["default_words"].as_array().into_iter().flatten() {
        prost::encoding::string::encode(2, &word.as_str().unwrap_or_default().to_owned(), &mut request);
    }
    let semantics = match text(case, "semantics") {
        "DELTA_ENCODING" => 0,
        "INDEPENDENT_ENCODING" => 1,
        other => return Err(format!("unknown semantics `{other}`")),
    };
    prost::encoding::int32::encode(4, &semantics, &mut request);
    Ok(request)
}

fn referenced(case: &Json) -> Result<(), String> {
    let body = bytes(case, "hex")?;
    let arena = Bump::new();
    let gets: Vec<(&str, Option<&str>)> = case["gets"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|get| (text(get, "name"), get["key"].as_str()))
        .collect();
    let names: Vec<&str> = gets.iter().map(|(name, _)| *name).collect();
    let plain = Vocabulary::builder().build();
    let decoded = CompressedAttributes::decode(&body, &arena).map_err(|error| error.to_string())?;
    let vocabulary = vocabulary_of(&AttributeBag::new(&decoded, None, &plain, &arena), &names);
    let bag = AttributeBag::new(&decoded, None, &vocabulary, &arena);
    for (name, key) in gets {
        let slot = vocabulary.slot(name.as_bytes()).ok_or("no slot")?;
        if let (Some(Value::StringMap(map)), Some(key)) = (bag.get(slot), key) {
            bag.lookup(map, key.as_bytes());
        }
    }
    let count = u32::try_from(case["global_word_count"].as_u64().unwrap_or(0)).map_err(|e| e.to_string())?;
    let mut encoded = Vec::new();
    bag.encode_references(count, Reads::All, &mut encoded);
    any(case, |expect| same_references(&encoded, expect))
}

fn same_references(encoded: &[u8], expect: &Json) -> Result<(), String> {
    let message = proto::ReferencedAttributes::decode(encoded).map_err(|error| error.to_string())?;
    let words: Vec<String> = message.words.iter().map(|word| lossy(word)).collect();
    let word = |index: i32| match usize::try_from(index) {
        Ok(global) => GLOBAL_WORDS.get(global).map(|word| (*word).to_owned()),
        Err(_) => words.get(usize::try_from(!index).ok()?).cloned(),
    };
    // Index 0 and no key are the same on the wire; the product sends the key `source.ip` as a message word.
    let ambiguous = |key: &String| key.is_empty() || key == GLOBAL_WORDS[0];
    let mut refs = BTreeSet::new();
    for found in &message.attribute_matches {
        let name = word(found.name).ok_or("a name without a word")?;
        let key = match found.map_key {
            0 => None,
            index => Some(word(index).ok_or("a key without a word")?),
        };
        let new = refs.insert((
            name,
            key.filter(|key| !ambiguous(key)),
            found.condition().as_str_name().to_owned(),
        ));
        if !new {
            return Err("a match occurs twice".to_owned());
        }
    }
    let wanted = expect["refs"].as_array().into_iter().flatten().map(|entry| {
        let key = entry["map_key"].as_str().map(str::to_owned).filter(|key| !ambiguous(key));
        (text(entry, "name").to_owned(), key, text(entry, "condition").to_owned())
    });
    same("references", &refs, &wanted.collect())?;
    let source_ip_key = message
        .attribute_matches
        .iter()
        .any(|m| m.map_key < 0 && word(m.map_key).as_deref() == Some(GLOBAL_WORDS[0]));
    if source_ip_key {
        return Ok(());
    }
    let wanted: Vec<String> = expect["message_words"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|w| Some(w.as_str()?.to_owned()))
        .collect();
    let mut sorted = words.clone();
    sorted.sort();
    same("message words", &sorted, &wanted)?;
    match expect["wire_hex"].as_str() {
        Some(wanted) => same("bytes", &hex(encoded).as_str(), &wanted),
        None => Ok(()),
    }
}

/// The attributes of a bag. The reference keeps an attribute with an empty name, which is not accessible.
fn owned(bag: &AttributeBag<'_>) -> OwnedAttributes {
    let mut attributes = OwnedAttributes::from_bag(bag);
    attributes.remove("");
    attributes
}

fn same_attributes(what: &str, got: OwnedAttributes, want: OwnedAttributes) -> Result<(), String> {
    let comparable = |attributes: OwnedAttributes| -> OwnedAttributes {
        attributes.iter().map(|(name, value)| (name.to_vec(), bits(value.clone()))).collect()
    };
    let (left, right) = (comparable(got.clone()), comparable(want.clone()));
    if left == right { Ok(()) } else { Err(format!("{what}: got {got:?}, want {want:?}")) }
}

/// The attributes of a case.
fn attributes(json: &Json) -> Result<OwnedAttributes, String> {
    let mut all = OwnedAttributes::new();
    for (name, value) in json.as_object().into_iter().flatten() {
        all.insert(name.as_bytes(), value_of(value).map_err(|error| format!("{name}: {error}"))?);
    }
    Ok(all)
}

fn value_of(json: &Json) -> Result<OwnedValue, String> {
    let value = || json["value"].as_str().ok_or("a value without a text");
    Ok(match text(json, "type") {
        "STRING" => match json["hex"].as_str() {
            Some(hex) => OwnedValue::String(unhex(hex)?),
            None => OwnedValue::from(value()?),
        },
        "INT64" => OwnedValue::Int64(value()?.parse().map_err(|_| "bad integer")?),
        "DOUBLE" => {
            let bits = u64::from_str_radix(text(json, "bits"), 16).map_err(|_| "bad bits")?;
            OwnedValue::Double(f64::from_bits(bits))
        }
        "BOOL" => OwnedValue::Bool(json["value"].as_bool().ok_or("bad bool")?),
        "TIMESTAMP" => OwnedValue::Timestamp(Timestamp::parse_rfc3339(value()?)?),
        "DURATION" => {
            OwnedValue::Duration(SignedDuration::from_nanos(value()?.parse().map_err(|_| "bad duration")?))
        }
        "BYTES" => OwnedValue::Bytes(unhex(text(json, "hex"))?),
        "STRING_MAP" => OwnedValue::StringMap(string_map(json)?),
        other => return Err(format!("unknown type `{other}`")),
    })
}

fn string_map(json: &Json) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    if let Some(entries) = json["entries_hex"].as_array() {
        return entries
            .iter()
            .map(|pair| {
                let part = |i: usize| unhex(pair[i].as_str().unwrap_or_default());
                Ok((part(0)?, part(1)?))
            })
            .collect();
    }
    let entries = json["value"].as_object().into_iter().flatten();
    Ok(entries
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_str().unwrap_or_default().into()))
        .collect())
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: got {got:?}, want {want:?}")) }
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json[key].as_str().unwrap_or_default()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn bytes(case: &Json, key: &str) -> Result<Vec<u8>, String> {
    unhex(text(case, key))
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("`{text}` is not hex"));
    }
    (0..text.len())
        .step_by(2)
        .map(|at| {
            let digits = text.get(at..at + 2).ok_or("not ASCII")?;
            u8::from_str_radix(digits, 16).map_err(|_| format!("`{digits}` is not hex"))
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
