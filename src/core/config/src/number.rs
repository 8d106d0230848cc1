//! Numbers as the text that Go prints: the shortest digits that read back as the same number.

/// Go's `%g` of a 32-bit number: an exponent below 1e-4 and from 1e6 on.
pub(crate) fn general_number(value: f32) -> String {
    let size = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else if size == 0.0 || (1e-4..1e6).contains(&size) {
        value.to_string()
    } else {
        scientific(&format!("{value:e}"), 2)
    }
}

/// A finite number as Go's JSON encoder writes it: an exponent below 1e-6 and from 1e21 on.
pub(crate) fn json_number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        value.to_string()
    } else {
        // Go removes the zero that pads a negative exponent; exponents from 21 on have two digits.
        scientific(&format!("{value:e}"), 1)
    }
}

/// Rust's `1.5e-7` with a sign and at least `digits` digits in the exponent.
fn scientific(text: &str, digits: usize) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_appear_where_go_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (0.0001, "0.0001"),
            (0.000_099_9, "9.99e-05"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (-1.5e30, "-1.5e+30"),
            (f32::INFINITY, "+Inf"),
        ] {
            assert_eq!(general_number(value), expected);
        }
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.000_001, "0.000001"),
            (1.5e-7, "1.5e-7"),
            (1e-10, "1e-10"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.25e300, "1.25e+300"),
        ] {
            assert_eq!(json_number(value), expected);
        }
    }
}
