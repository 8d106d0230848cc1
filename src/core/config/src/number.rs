//! Numbers as the text that Go prints.

/// The shortest decimal digits that read back as the same number: `0.DIGITS * 10^point`.
pub(crate) struct Shortest {
    /// Whether there is a minus sign.
    pub(crate) negative: bool,
    /// Without leading or trailing zeros; empty for zero.
    pub(crate) digits: String,
    /// Where the point stands: behind this many digits.
    pub(crate) point: i32,
}

fn from_scientific(text: &str) -> Shortest {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits = mantissa.replace('.', "").trim_end_matches('0').to_owned();
    let point = if digits.is_empty() { 0 } else { exponent.parse::<i32>().unwrap_or(0) + 1 };
    Shortest { negative, digits, point }
}

/// Digits of a finite number.
pub(crate) fn shortest_f64(value: f64) -> Shortest {
    from_scientific(&format!("{value:e}"))
}

/// Digits of a finite 32-bit number.
pub(crate) fn shortest_f32(value: f32) -> Shortest {
    from_scientific(&format!("{value:e}"))
}

impl Shortest {
    /// Go's `%e` form with the shortest digits: `1.5e+21`.
    pub(crate) fn scientific(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let exponent = if self.digits.is_empty() { 0 } else { self.point - 1 };
        let (first, rest) = self.digits.split_at_checked(1).unwrap_or(("0", ""));
        let dot = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{first}{dot}{rest}e{exponent_sign}{:02}", exponent.abs())
    }

    /// Go's `%f` form with the shortest digits: `1500000`, `0.00015`.
    pub(crate) fn fixed(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let digits = self.digits.as_str();
        if digits.is_empty() {
            return format!("{sign}0");
        }
        let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
        let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
        if self.point <= 0 {
            format!("{sign}0.{}{digits}", zeros(-self.point))
        } else if self.point >= length {
            format!("{sign}{digits}{}", zeros(self.point - length))
        } else {
            let (whole, fraction) = digits.split_at(usize::try_from(self.point).unwrap_or(0));
            format!("{sign}{whole}.{fraction}")
        }
    }

    /// Go's `%g` form with the shortest digits: exponents below -4 and from 6 on are written.
    pub(crate) fn general(&self) -> String {
        let exponent = self.point - 1;
        if !self.digits.is_empty() && !(-4..6).contains(&exponent) { self.scientific() } else { self.fixed() }
    }

    /// The form in Go's JSON: exponents below -6 and from 21 on are written, with at least one digit.
    pub(crate) fn json(&self) -> String {
        let exponent = self.point - 1;
        if self.digits.is_empty() || (-6..21).contains(&exponent) {
            return self.fixed();
        }
        let text = self.scientific();
        match text.split_once("e-0") {
            Some((mantissa, digit)) => format!("{mantissa}e-{digit}"),
            None => text,
        }
    }
}
