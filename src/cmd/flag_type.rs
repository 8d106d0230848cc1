//! Types of flags as legacy help names them and the legacy parser checks them.

use mixer_attribute::SignedDuration;
use mixer_server::LoadSheddingMode;

use super::go_syntax::{NumberError, go_bool, go_float, go_int, go_uint};
use super::value::{PerSecond, load_shedding_mode};

/// The type of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagType {
    /// Any text.
    Text,
    /// Any text, repeatable.
    TextArray,
    /// Texts separated by commas, repeatable.
    TextList,
    /// A Boolean; its value needs `=`.
    Bool,
    /// A Boolean that clap parses as a switch without value.
    Switch,
    /// Signed, 64 bits.
    Int,
    /// Signed, 32 bits.
    Int32,
    /// Unsigned, 64 bits.
    Uint,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// Floating point.
    Float,
    /// Go duration.
    Duration,
    /// A rate per second.
    RateLimit,
    /// Load shedding mode.
    ThrottlerMode,
}

impl FlagType {
    /// The type of a clap argument.
    pub(crate) fn of(arg: &clap::Arg) -> FlagType {
        use std::any::TypeId;
        match arg.get_action() {
            clap::ArgAction::SetTrue | clap::ArgAction::SetFalse | clap::ArgAction::Count => {
                return FlagType::Switch;
            }
            clap::ArgAction::Append if arg.get_value_delimiter().is_some() => return FlagType::TextList,
            clap::ArgAction::Append => return FlagType::TextArray,
            _ => {}
        }
        let id = arg.get_value_parser().type_id();
        let table = [
            (TypeId::of::<bool>(), FlagType::Bool),
            (TypeId::of::<i64>(), FlagType::Int),
            (TypeId::of::<i32>(), FlagType::Int32),
            (TypeId::of::<u64>(), FlagType::Uint),
            (TypeId::of::<u16>(), FlagType::Uint16),
            (TypeId::of::<u32>(), FlagType::Uint32),
            (TypeId::of::<f64>(), FlagType::Float),
            (TypeId::of::<SignedDuration>(), FlagType::Duration),
            (TypeId::of::<PerSecond>(), FlagType::RateLimit),
            (TypeId::of::<LoadSheddingMode>(), FlagType::ThrottlerMode),
        ];
        table.iter().find(|(known, _)| id == *known).map_or(FlagType::Text, |(_, flag_type)| *flag_type)
    }

    /// The name in legacy help; empty for Booleans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FlagType::Text => "string",
            FlagType::TextArray => "stringArray",
            FlagType::TextList => "strings",
            FlagType::Bool | FlagType::Switch => "",
            FlagType::Int => "int",
            FlagType::Int32 => "int32",
            FlagType::Uint => "uint",
            FlagType::Uint16 => "uint16",
            FlagType::Uint32 => "uint32",
            FlagType::Float => "float",
            FlagType::Duration => "duration",
            FlagType::RateLimit => "ratelimit",
            FlagType::ThrottlerMode => "throttlermode",
        }
    }

    /// Whether the next argument is never the value of this flag.
    pub(crate) fn is_bool(self) -> bool {
        matches!(self, FlagType::Bool | FlagType::Switch)
    }

    /// Validates a value. Errors: the text of Istio Mixer.
    pub(crate) fn check(self, value: &str) -> Result<(), String> {
        let number = |function: &'static str| move |error: NumberError| error.text(function, value);
        let ranged = |ok: bool| if ok { Ok(()) } else { Err(NumberError::Range) };
        match self {
            FlagType::Text | FlagType::TextArray | FlagType::TextList => Ok(()),
            FlagType::Bool | FlagType::Switch => go_bool(value).map(drop).map_err(number("ParseBool")),
            FlagType::Int => go_int(value).map(drop).map_err(number("ParseInt")),
            FlagType::Int32 => {
                go_int(value).and_then(|n| ranged(i32::try_from(n).is_ok())).map_err(number("ParseInt"))
            }
            FlagType::Uint => go_uint(value).map(drop).map_err(number("ParseUint")),
            FlagType::Uint16 => {
                go_uint(value).and_then(|n| ranged(u16::try_from(n).is_ok())).map_err(number("ParseUint"))
            }
            FlagType::Uint32 => {
                go_uint(value).and_then(|n| ranged(u32::try_from(n).is_ok())).map_err(number("ParseUint"))
            }
            FlagType::Float | FlagType::RateLimit => go_float(value).map(drop).map_err(number("ParseFloat")),
            FlagType::Duration => SignedDuration::parse(value).map(drop),
            FlagType::ThrottlerMode => load_shedding_mode(value).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        let check = |flag_type: FlagType, value: &str| flag_type.check(value).err().unwrap_or_default();
        assert_eq!(check(FlagType::Int, "x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(
            check(FlagType::Uint16, "70000"),
            "strconv.ParseUint: parsing \"70000\": value out of range"
        );
        assert_eq!(check(FlagType::Bool, "maybe"), "strconv.ParseBool: parsing \"maybe\": invalid syntax");
        assert_eq!(check(FlagType::Int32, "0x7fffffff"), "");
    }
}
