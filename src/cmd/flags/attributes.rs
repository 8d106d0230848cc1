//! The flags of request attributes.

use std::io::Read;

use clap::ArgAction;

use crate::cmd::attributes::{AttributeSet, AttributeType, Dictionary, parse_document};
use crate::cmd::exit::Failure;

/// The attributes of a request. Of the commands of `mixer` each flag may be repeated; see [`Self::LISTS`].
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Attributes")]
pub(crate) struct AttributeFlags {
    /// Attributes, auto-detected type: name1=value1,name2=value2,….
    ///
    /// Types in order of detection: int64, double, bool, timestamp, duration, bytes, stringmap, string.
    #[arg(
        short = 'a',
        long,
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    attributes: Vec<String>,
    /// String attributes: name1=value1,name2=value2,….
    #[arg(
        short = 's',
        long = "string-attributes",
        alias = "string_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    string_attributes: Vec<String>,
    /// Integer attributes: name1=1,name2=2,….
    #[arg(
        short = 'i',
        long = "int64-attributes",
        alias = "int64_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    int64_attributes: Vec<String>,
    /// Floating point attributes: name1=0.5,name2=1e3,….
    #[arg(
        short = 'd',
        long = "double-attributes",
        alias = "double_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    double_attributes: Vec<String>,
    /// Boolean attributes: name1=true,name2=false,….
    #[arg(
        short = 'b',
        long = "bool-attributes",
        alias = "bool_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    bool_attributes: Vec<String>,
    /// Timestamp attributes: name1=2017-07-04T00:01:10Z,….
    #[arg(
        short = 't',
        long = "timestamp-attributes",
        alias = "timestamp_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    timestamp_attributes: Vec<String>,
    /// Duration attributes: name1=250ms,name2=1h30m,….
    #[arg(
        long = "duration-attributes",
        alias = "duration_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    duration_attributes: Vec<String>,
    /// Bytes attributes, for example IP addresses: name1=c0:0:0:2,….
    #[arg(
        long = "bytes-attributes",
        alias = "bytes_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    bytes_attributes: Vec<String>,
    /// IP addresses: name1=192.0.2.1,name2=2001:db8::1,….
    #[arg(
        long = "ip-attributes",
        alias = "ip_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    ip_attributes: Vec<String>,
    /// String map attributes: name1=key1:value1;key2:value2,….
    #[arg(
        long = "stringmap-attributes",
        alias = "stringmap_attributes",
        action = ArgAction::Set,
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    stringmap_attributes: Vec<String>,
    /// YAML or JSON file with attributes; `@-` reads standard input. Flags override the file.
    ///
    /// A map of names and values. {timestamp: …}, {duration: …}, {bytes: …} and {ip: …} specify types that YAML does not have.
    #[arg(long, value_name = "FILE")]
    attributes_file: Option<String>,
    /// Whether to encode words with the global dictionary.
    #[arg(long, value_enum, default_value = "message", value_name = "DICTIONARY")]
    pub(crate) dictionary: Dictionary,
}

impl AttributeFlags {
    /// The ids of the flags that take lists.
    pub(crate) const LISTS: [&str; 10] = [
        "attributes",
        "string_attributes",
        "int64_attributes",
        "double_attributes",
        "bool_attributes",
        "timestamp_attributes",
        "duration_attributes",
        "bytes_attributes",
        "ip_attributes",
        "stringmap_attributes",
    ];

    /// Parses the attributes. Errors: the first invalid flag, in a fixed order of flags.
    pub(crate) fn parse(&self, input: &mut dyn Read) -> Result<AttributeSet, Failure> {
        let mut set = AttributeSet::default();
        if let Some(file) = &self.attributes_file {
            let refuse = |cause: String| {
                let hint = "the file is a map of names and values, YAML or JSON, for example `source.user: ann`; `@-` is standard input";
                Failure::local(format!("cannot read attributes from `{file}`")).cause(cause).hint(hint)
            };
            let text = read_file(file, input).map_err(|e| refuse(e.to_string()))?;
            set = parse_document(&text).map_err(refuse)?;
        }
        let flags = [
            (AttributeType::String, &self.string_attributes),
            (AttributeType::Int64, &self.int64_attributes),
            (AttributeType::Double, &self.double_attributes),
            (AttributeType::Bool, &self.bool_attributes),
            (AttributeType::Timestamp, &self.timestamp_attributes),
            (AttributeType::Duration, &self.duration_attributes),
            (AttributeType::Bytes, &self.bytes_attributes),
            (AttributeType::Ip, &self.ip_attributes),
            (AttributeType::StringMap, &self.stringmap_attributes),
            (AttributeType::Auto, &self.attributes),
        ];
        for (value_type, texts) in flags {
            set.add_flag(value_type, &joined(texts)).map_err(|invalid| invalid.failure(value_type))?;
        }
        Ok(set)
    }
}

/// The lists of a flag as one: of Istio's programs the last one, of the commands of `mixer` all of them.
pub(crate) fn joined(lists: &[String]) -> String {
    let given: Vec<&str> = lists.iter().map(String::as_str).filter(|list| !list.is_empty()).collect();
    given.join(",")
}

/// Maximum bytes read from an attribute file.
const MAX_FILE_SIZE: u64 = 16 << 20;

fn read_file(file: &str, input: &mut dyn Read) -> std::io::Result<String> {
    let mut text = String::new();
    if matches!(file, "@-" | "-") {
        input.take(MAX_FILE_SIZE).read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file.strip_prefix('@').unwrap_or(file))?
            .take(MAX_FILE_SIZE)
            .read_to_string(&mut text)?;
    }
    Ok(text)
}
