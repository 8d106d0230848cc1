//! Typed messages decoded from documents: error texts and positions.

#![cfg(test)]

use mixer_adapters::denier::Params as Denier;
use mixer_config::message::{Message, decode_over};
use mixer_config::{FieldPath, yaml};
use mixer_engine::snapshot::decode::{AttributeManifest, Handler, Instance, Rule};

/// The first error of decoding a JSON text over the default.
fn error<M: Message>(text: &str) -> Option<String> {
    let node = yaml::parse(text).unwrap().root;
    decode_over(&mut M::default(), &node, FieldPath::root()).into_iter().next().map(|e| e.message)
}

#[test]
fn error_texts_are_those_of_istio_mixer() {
    let denier = [
        (r#"{"validUseCount":"12"}"#, None),
        (r#"{"validUseCount":12.0}"#, None),
        (r#"{"validUseCount":null,"status":null}"#, None),
        (r#"{"valid_use_count":"null"}"#, None),
        (
            r#"{"validUseCount":"12.0"}"#,
            Some("json: cannot unmarshal number 12.0 into Go value of type int32"),
        ),
        (r#"{"validUseCount":"abc"}"#, Some("invalid character 'a' looking for beginning of value")),
        (
            r#"{"validUseCount":300000000000}"#,
            Some("json: cannot unmarshal number 300000000000 into Go value of type int32"),
        ),
        (r#"{"validUseCount":true}"#, Some("json: cannot unmarshal bool into Go value of type int32")),
        (r#"{"validUseCount":[1]}"#, Some("json: cannot unmarshal array into Go value of type int32")),
        (r#"{"validUseCount":1.5}"#, Some("json: cannot unmarshal number 1.5 into Go value of type int32")),
        (r#"{"validUseCount":""}"#, Some("unexpected end of JSON input")),
        (r#"{"status":{"code":"7x"}}"#, Some("invalid character 'x' after top-level value")),
        (
            r#"{"status":5}"#,
            Some("json: cannot unmarshal number into Go value of type map[string]json.RawMessage"),
        ),
        (r#"{"status":{"message":7}}"#, Some("json: cannot unmarshal number into Go value of type string")),
        (r#"{"status":{"message":null}}"#, None),
        (r#"{"validDuration":5}"#, Some("json: cannot unmarshal number into Go value of type string")),
        (r#"{"validDuration":null}"#, Some("bad Duration: time: invalid duration \"\"")),
        (r#"{"validDuration":"1d"}"#, Some("bad Duration: time: unknown unit \"d\" in duration \"1d\"")),
        (
            r#"{"bogus":1,"status":{"message":7}}"#,
            Some("json: cannot unmarshal number into Go value of type string"),
        ),
        (r#"{"bogus":1}"#, Some("unknown field \"bogus\" in config.Params")),
        ("[]", Some("json: cannot unmarshal array into Go value of type map[string]json.RawMessage")),
        ("null", None),
    ];
    for (text, expected) in denier {
        assert_eq!(error::<Denier>(text).as_deref(), expected, "{text}");
    }
    let rule = [
        (r#"{"match":5}"#, Some("json: cannot unmarshal number into Go value of type string")),
        (
            r#"{"actions":{"a":1}}"#,
            Some("json: cannot unmarshal object into Go value of type []json.RawMessage"),
        ),
        (
            r#"{"requestHeaderOperations":[{"operation":"FOO"}]}"#,
            Some(
                "unknown value \"FOO\" for enum istio.policy.v1beta1.Rule_HeaderOperationTemplate_Operation",
            ),
        ),
        (
            r#"{"requestHeaderOperations":[{"operation":true}]}"#,
            Some(
                "json: cannot unmarshal bool into Go value of type v1beta1.Rule_HeaderOperationTemplate_Operation",
            ),
        ),
        (
            r#"{"sampling":{"random":{"percentSampled":{"numerator":-1}}}}"#,
            Some("json: cannot unmarshal number -1 into Go value of type uint32"),
        ),
        (r#"{"onError":"x"}"#, Some("unknown field \"onError\" in v1beta1.Rule")),
        (r#"{"actions":[{"bogus":1}]}"#, Some("unknown field \"bogus\" in v1beta1.Action")),
    ];
    for (text, expected) in rule {
        assert_eq!(error::<Rule>(text).as_deref(), expected, "{text}");
    }
    let strange =
        "bad StructValue: json: cannot unmarshal number into Go value of type map[string]json.RawMessage";
    assert_eq!(error::<Handler>(r#"{"params":5}"#).as_deref(), Some(strange));
    assert_eq!(error::<Handler>(r#"{"params":null,"connection":{"timeout":null}}"#), None);
    assert_eq!(error::<Instance>(r#"{"attributeBindings":{"a":null}}"#), None);
    assert_eq!(
        error::<AttributeManifest>(r#"{"attributes":{"a":{"type":"STRING"}}}"#).as_deref(),
        Some("unknown field \"type\" in v1beta1.AttributeManifest_AttributeInfo")
    );
    assert_eq!(
        error::<AttributeManifest>(r#"{"attributes":{"a":{"valueType":"string"}}}"#).as_deref(),
        Some("unknown value \"string\" for enum istio.policy.v1beta1.ValueType")
    );
}

#[test]
fn fields_before_the_first_error_apply() {
    let decode = |text: &str| {
        let mut params = Denier::default();
        let node = yaml::parse(text).unwrap().root;
        let errors = decode_over(&mut params, &node, FieldPath::parse("spec.params"));
        let fields = errors.iter().map(|e| e.field.to_string()).collect::<Vec<_>>();
        (params, fields)
    };
    let (params, errors) =
        decode("status: {code: 7, message: dur}\nvalidDuration: tomorrow\nvalidUseCount: 6\n");
    assert_eq!((params.status.code, params.valid_use_count), (7, 1000));
    assert_eq!(errors, ["spec.params.validDuration"]);
    let (params, errors) = decode("validUseCount: 42\nfrobnicate: true\nstatus: {cod: 1, message: x}\n");
    assert_eq!(
        (params.status.message.as_str(), params.valid_use_count),
        ("x", 1000),
        "an unknown field ends its message"
    );
    assert_eq!(errors, ["spec.params.status.cod", "spec.params.frobnicate"]);
    let (params, _) = decode("valid_use_count: 1\nvalidUseCount: 2\n");
    assert_eq!(params.valid_use_count, 2, "lowerCamelCase takes precedence");
}
