//! The functions of the engine that are called as they are, with the reason for each. What is neither here nor bounded is not called.

/// Takes the same time for all arguments.
const CONSTANT: &str = "takes the same time for all arguments";
/// Reads its arguments once, and makes nothing that is longer than them by more than a small factor.
const LINEAR: &str = "is linear in its arguments";
/// Sorts, or looks up each part of an argument in a tree.
const SORTED: &str = "is linear in its arguments but for the depth of a tree";
/// Numbers have a bound where they are read, shifted and multiplied.
const OF_NUMBERS: &str =
    "is linear in the length of a number, or quadratic where it is written out: texts have no long ones";
/// Addresses and versions are short; the rest of a text is refused where it begins.
const PARSED: &str = "ends at the first character that is wrong";

/// The functions by name, and why.
pub(super) const HARMLESS: [(&str, &str); 70] = [
    ("__builtin_sets.intersection", SORTED),
    ("__builtin_sets.union", SORTED),
    ("abs", OF_NUMBERS),
    ("array.concat", LINEAR),
    ("array.reverse", LINEAR),
    ("array.slice", LINEAR),
    ("base64.decode", LINEAR),
    ("base64.encode", LINEAR),
    ("base64.is_valid", LINEAR),
    ("base64url.decode", LINEAR),
    ("base64url.encode", LINEAR),
    ("base64url.encode_no_pad", LINEAR),
    ("bits.and", OF_NUMBERS),
    ("bits.negate", OF_NUMBERS),
    ("bits.or", OF_NUMBERS),
    ("bits.rsh", OF_NUMBERS),
    ("bits.xor", OF_NUMBERS),
    ("ceil", OF_NUMBERS),
    ("contains", LINEAR),
    ("count", LINEAR),
    ("endswith", LINEAR),
    ("floor", OF_NUMBERS),
    ("format_int", OF_NUMBERS),
    ("hex.decode", LINEAR),
    ("hex.encode", LINEAR),
    ("intersection", SORTED),
    ("is_array", CONSTANT),
    ("is_boolean", CONSTANT),
    ("is_null", CONSTANT),
    ("is_number", CONSTANT),
    ("is_object", CONSTANT),
    ("is_set", CONSTANT),
    ("is_string", CONSTANT),
    ("lower", LINEAR),
    ("max", SORTED),
    ("min", SORTED),
    ("net.cidr_contains", PARSED),
    ("net.cidr_is_valid", PARSED),
    ("object.filter", SORTED),
    ("object.get", SORTED),
    ("object.keys", SORTED),
    ("object.remove", SORTED),
    ("object.union", SORTED),
    ("rand.intn", LINEAR),
    ("round", OF_NUMBERS),
    ("semver.compare", PARSED),
    ("semver.is_valid", PARSED),
    ("sort", SORTED),
    ("split", LINEAR),
    ("startswith", LINEAR),
    ("strings.reverse", LINEAR),
    ("substring", LINEAR),
    ("time.add_date", CONSTANT),
    ("time.clock", CONSTANT),
    ("time.date", CONSTANT),
    ("time.diff", CONSTANT),
    ("time.now_ns", CONSTANT),
    ("time.parse_duration_ns", PARSED),
    ("time.parse_rfc3339_ns", PARSED),
    ("time.weekday", CONSTANT),
    ("trace", LINEAR),
    ("trim_prefix", LINEAR),
    ("trim_space", LINEAR),
    ("trim_suffix", LINEAR),
    ("type_name", CONSTANT),
    ("upper", LINEAR),
    ("urlquery.decode", LINEAR),
    ("urlquery.decode_object", SORTED),
    ("urlquery.encode", LINEAR),
    ("urlquery.encode_object", LINEAR),
];
