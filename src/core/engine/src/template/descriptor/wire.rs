//! `google/protobuf/descriptor.proto`, as far as it is needed, with the options of a template. Everything else is skipped.

/// `FileDescriptorSet`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileSet {
    #[prost(message, repeated, tag = "1")]
    pub(super) files: Vec<File>,
}

/// `FileDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct File {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) package: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) messages: Vec<Message>,
    #[prost(message, repeated, tag = "5")]
    pub(super) enums: Vec<Enum>,
    #[prost(message, repeated, tag = "6")]
    pub(super) services: Vec<Service>,
    #[prost(message, optional, tag = "8")]
    pub(super) options: Option<FileOptions>,
    #[prost(string, tag = "12")]
    pub(super) syntax: String,
}

/// `FileOptions` with the extensions of a template.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileOptions {
    #[prost(int32, optional, tag = "72295727")]
    pub(super) variety: Option<i32>,
    #[prost(string, optional, tag = "72295888")]
    pub(super) template_name: Option<String>,
}

/// `DescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    pub(super) nested: Vec<Message>,
    #[prost(message, repeated, tag = "4")]
    pub(super) enums: Vec<Enum>,
    #[prost(message, optional, tag = "7")]
    pub(super) options: Option<MessageOptions>,
}

/// `MessageOptions`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MessageOptions {
    #[prost(bool, tag = "7")]
    pub(super) map_entry: bool,
}

/// `FieldDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Field {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) number: i32,
    #[prost(int32, tag = "4")]
    pub(super) label: i32,
    #[prost(int32, tag = "5")]
    pub(super) kind: i32,
    #[prost(string, tag = "6")]
    pub(super) type_name: String,
    #[prost(message, optional, tag = "8")]
    pub(super) options: Option<FieldOptions>,
    #[prost(int32, optional, tag = "9")]
    pub(super) oneof_index: Option<i32>,
    #[prost(string, tag = "10")]
    pub(super) json_name: String,
}

/// `FieldOptions`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct FieldOptions {
    #[prost(bool, optional, tag = "2")]
    pub(super) packed: Option<bool>,
}

/// `EnumDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Enum {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) values: Vec<EnumValue>,
}

/// `EnumValueDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EnumValue {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) number: i32,
}

/// `ServiceDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Service {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) methods: Vec<RpcMethod>,
}

/// `MethodDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RpcMethod {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) input: String,
    #[prost(string, tag = "3")]
    pub(super) output: String,
}
