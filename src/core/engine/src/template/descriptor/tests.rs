use base64::Engine as _;
use proptest::prelude::*;

use super::wire::{
    Enum, EnumValue, Field, FieldOptions, FileOptions, Message, MessageOptions, RpcMethod, Service,
};
use super::*;
use crate::template::TemplateInfo;

const REPEATED: i32 = 3;

fn base64(set: &FileSet) -> String {
    base64::engine::general_purpose::STANDARD.encode(set.encode_to_vec())
}

fn field(number: i32, name: &str, kind: i32) -> Field {
    Field { number, name: name.to_owned(), kind, label: 1, ..Field::default() }
}

fn message_field(number: i32, name: &str, type_name: &str) -> Field {
    Field { type_name: type_name.to_owned(), ..field(number, name, 11) }
}

fn message(name: &str, fields: Vec<Field>) -> Message {
    Message { name: name.to_owned(), fields, ..Message::default() }
}

/// A template `lab` of variety check with these messages.
fn template(messages: Vec<Message>) -> File {
    let options = FileOptions { variety: Some(0), template_name: Some("lab".to_owned()) };
    let method = RpcMethod {
        name: "HandleLab".to_owned(),
        input: ".lab.HandleLabRequest".to_owned(),
        output: ".istio.mixer.adapter.model.v1beta1.CheckResult".to_owned(),
    };
    let services = vec![Service { name: "HandleLabService".to_owned(), methods: vec![method] }];
    File {
        name: "lab.proto".to_owned(),
        package: "lab".to_owned(),
        messages,
        services,
        options: Some(options),
        syntax: "proto3".to_owned(),
        ..File::default()
    }
}

fn set(files: Vec<File>) -> FileSet {
    FileSet { files }
}

fn read(set: &FileSet) -> Result<TemplateInfo, DescriptorError> {
    TemplateInfo::from_descriptor("lab.template.ns", &base64(set))
}

#[test]
fn a_template_is_read_with_all_that_a_field_may_be() {
    let entry = Message {
        options: Some(MessageOptions { map_entry: true }),
        ..message(
            "TagsEntry",
            vec![field(1, "key", 9), message_field(2, "value", ".istio.policy.v1beta1.Value")],
        )
    };
    let mode = Enum { name: "Mode".to_owned(), values: vec![EnumValue { name: "ON".to_owned(), number: 1 }] };
    let unpacked = Field {
        label: REPEATED,
        options: Some(FieldOptions { packed: Some(false) }),
        ..field(4, "sizes", 3)
    };
    let fields = vec![
        field(72_295_727, "name", 9),
        Field { label: REPEATED, ..message_field(3, "tags", ".lab.InstanceMsg.TagsEntry") },
        field(1, "who_asks", 9),
        message_field(2, "self", ".lab.InstanceMsg"),
        unpacked,
        Field { label: REPEATED, ..field(5, "ids", 13) },
        Field { type_name: ".lab.InstanceMsg.Mode".to_owned(), ..field(6, "mode", 14) },
        message_field(7, "gone", ".else.Where"),
    ];
    let instance = Message { nested: vec![entry], enums: vec![mode], ..message("InstanceMsg", fields) };
    let template = read(&set(vec![template(vec![instance])])).unwrap();
    assert_eq!(
        (&*template.name, &*template.package, template.variety),
        ("lab.template.ns", "lab", Variety::Check)
    );
    let external = template.external.as_ref().unwrap();
    let instance = external.schema.message(external.instance).unwrap();
    let numbers: Vec<u32> = instance.fields.iter().map(|field| field.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, INSTANCE_NAME]);
    let of = |name: &str| instance.field(name).unwrap();
    assert_eq!(of("whoAsks"), of("who_asks"));
    assert_eq!(of("self").kind, Kind::Message(external.instance), "recursion costs nothing");
    let tags = of("tags");
    assert_eq!(tags.cardinality, Cardinality::Map { key: Kind::String });
    assert_eq!(tags.kind.well_known(&external.schema), Some(WellKnown::Value), "needs no descriptor");
    assert_eq!(of("sizes").cardinality, Cardinality::Many { packed: false });
    assert_eq!(of("ids").cardinality, Cardinality::Many { packed: true });
    let Kind::Enum(mode) = of("mode").kind else { panic!("an enum is expected") };
    let mode = external.schema.enumeration(mode).unwrap();
    assert_eq!((mode.short_name(), mode.number("ON"), mode.number("OFF")), ("Mode", Some(1), None));
    assert_eq!(of("gone").kind, Kind::Missing("else.Where".into()));
    let method = &external.method;
    assert_eq!(method.path, "/lab.HandleLabService/HandleLab");
}

#[test]
fn defects_are_named() {
    let instance = || vec![message("InstanceMsg", Vec::new())];
    let good = || template(instance());
    let with = |variety, name: Option<&str>| {
        let options = FileOptions { variety, template_name: name.map(str::to_owned) };
        File { options: Some(options), ..good() }
    };
    let no_options = "there has to be one proto file that has the extension \
                      istio.mixer.adapter.model.v1beta1.template_variety";
    let other = File { name: "other.proto".to_owned(), ..good() };
    let rows = [
        (vec![], no_options),
        (vec![File { options: None, ..good() }], no_options),
        (
            vec![good(), other],
            "proto files other.proto and lab.proto, both have the option \
             istio.mixer.adapter.model.v1beta1.template_variety. Only one proto file is allowed with this options",
        ),
        (vec![with(Some(1), None)], "proto files lab.proto is missing required template_name option"),
        (vec![with(Some(1), Some("a-b"))], "the template name 'a-b' must match the regex '^[a-zA-Z]+$'"),
        (vec![with(Some(1), Some(""))], "the template name '' must match the regex '^[a-zA-Z]+$'"),
        (vec![with(Some(5), Some("lab"))], "proto file lab.proto has template_variety 5, which is unknown"),
        (vec![with(Some(-1), Some("lab"))], "proto file lab.proto has template_variety -1, which is unknown"),
        (vec![template(vec![])], "proto file lab.proto has no message lab.InstanceMsg"),
        (vec![with(Some(3), Some("lab"))], "proto file lab.proto has no message lab.OutputMsg"),
        (vec![with(Some(4), Some("lab"))], "proto file lab.proto has no message lab.OutputMsg"),
    ];
    for (files, wanted) in rows {
        let error = read(&set(files)).unwrap_err();
        assert_eq!(error.to_string(), wanted);
        assert!(!error.hint().is_empty());
    }
    assert!(read(&set(vec![good()])).is_ok());
}

#[test]
fn what_is_no_descriptor_set_is_refused() {
    let read = |text: &str| TemplateInfo::from_descriptor("t", text).unwrap_err().to_string();
    assert_eq!(read("!"), "illegal base64 data at input byte 0");
    assert_eq!(read("QUJD_"), "illegal base64 data at input byte 4");
    assert!(read("QUJDRA==").starts_with("no google.protobuf.FileDescriptorSet: "));
    let large = "A".repeat(MAX_DESCRIPTOR_BYTES / 3 * 4 + 16);
    assert!(read(&large).ends_with("at most 1048576 are read"), "it is not decoded at all");
    // Line breaks belong to base64.
    let good = base64(&set(vec![template(vec![message("InstanceMsg", Vec::new())])]));
    let (head, tail) = good.split_at(7);
    assert!(TemplateInfo::from_descriptor("t", &format!("{head}\r\n{tail}\n")).is_ok());
}

#[test]
fn nesting_and_repetition_cost_nothing() {
    // Each message has two fields of the next one: 2^40 fields, if they were spread out.
    let mut messages = vec![message("InstanceMsg", vec![message_field(1, "a", ".lab.M0")])];
    messages.extend((0..40).map(|level| {
        let next = format!(".lab.M{}", level + 1);
        message(&format!("M{level}"), vec![message_field(1, "a", &next), message_field(2, "b", &next)])
    }));
    let template = read(&set(vec![template(messages)])).unwrap();
    assert_eq!(template.external.unwrap().schema.messages().len(), 41);
    // Types that are nested in types are as deep as a decoder of protobuf goes, and no deeper.
    let mut deep = message("M", Vec::new());
    for _ in 0..200 {
        deep = Message { nested: vec![deep], ..message("M", Vec::new()) };
    }
    let error = read(&set(vec![self::template(vec![deep])])).unwrap_err();
    assert!(matches!(error, DescriptorError::Malformed(_)), "{error}");
}

#[test]
fn built_in_templates_have_no_field_that_their_adapters_cannot_take() {
    let built_in = |files: Vec<File>| {
        let descriptors = Descriptors { set: set(files) };
        let template = descriptors.templates().next().unwrap().and_then(|file| TemplateInfo::built_in(&file));
        template.unwrap_err().to_string()
    };
    let instance = |fields| vec![template(vec![message("InstanceMsg", fields)])];
    let rows = [
        (field(1, "raw", 12), "field raw of message lab.InstanceMsg is bytes, which a template may not have"),
        (
            field(1, "small", 5),
            "field small of message lab.InstanceMsg is int32, which a template may not have",
        ),
        (
            Field { label: REPEATED, ..field(1, "many", 9) },
            "field many of message lab.InstanceMsg is a list of string, which a template may not have",
        ),
        (
            message_field(1, "again", ".lab.InstanceMsg"),
            "message lab.InstanceMsg contains itself, or nests more than 8 deep",
        ),
    ];
    for (field, wanted) in rows {
        assert_eq!(built_in(instance(vec![field])), wanted);
    }
}

#[test]
fn parameters_are_those_of_the_last_file_that_has_some() {
    let file = |package: &str, name: &str| File {
        package: package.to_owned(),
        messages: vec![message(name, Vec::new())],
        ..File::default()
    };
    let package = |files: Vec<File>| Descriptors { set: set(files) }.params_package().map(str::to_owned);
    assert_eq!(
        package(vec![file("a", "Params"), file("b", "Params"), file("c", "Other")]),
        Ok("b".to_owned())
    );
    assert_eq!(package(vec![file("c", "Other")]), Err(DescriptorError::NoParams));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(descriptors) = Descriptors::decode(&bytes) {
            let _ = descriptors.template().and_then(|file| file.types());
        }
    }

    /// A good descriptor with one byte changed.
    #[test]
    fn a_damaged_descriptor_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = mixer_wire::TEMPLATES.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(descriptors) = Descriptors::decode(&bytes) {
            for file in descriptors.templates() {
                let _ = file.and_then(|file| TemplateInfo::built_in(&file));
            }
        }
    }
}
