//! Floating-point numbers as the text that Go prints: the shortest digits that read back as the same number.
//!
//! If two texts of that length are equally close, Go takes the one whose last digit is even; Rust takes the larger.

use std::fmt::{self, Write as _};

/// Digits of a 64-bit number at most.
const MAX_DIGITS: usize = 17;
/// Digits that tell any two decimal texts apart, of a 64-bit and of a 32-bit number: shorter texts cannot be equally close.
const DISTINCT: [usize; 2] = [15, 6];

/// Go's format `f`: without an exponent; `NaN`, `+Inf`, `-Inf`.
pub fn plain(number: f64) -> impl fmt::Display {
    displayed(Shortest::of_double(number), |shortest, f| shortest.plain(f))
}

/// Go's format `g`, and `%v`: with an exponent of at least two digits below 1e-4 and from 1e6 on; `NaN`, `+Inf`, `-Inf`.
pub fn general(number: f64) -> impl fmt::Display {
    displayed(Shortest::of_double(number), |shortest, f| shortest.general(f))
}

/// [`general`] of a 32-bit number.
pub fn general_single(number: f32) -> impl fmt::Display {
    displayed(Shortest::of_single(number), |shortest, f| shortest.general(f))
}

/// As Go's JSON encoder writes a finite number: with an exponent below 1e-6 and from 1e21 on.
pub fn json(number: f64) -> impl fmt::Display {
    displayed(Shortest::of_double(number), |shortest, f| match shortest.exponent {
        // Go removes the zero that pads a negative exponent; exponents from 21 on have two digits.
        -6..21 => shortest.plain(f),
        _ => shortest.scientific(f, 1),
    })
}

fn displayed(
    number: Result<Shortest, &'static str>,
    write: impl Fn(&Shortest, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> impl fmt::Display {
    fmt::from_fn(move |f| match &number {
        Ok(shortest) => write(shortest, f),
        Err(name) => f.write_str(name),
    })
}

/// A finite number as its shortest decimal: `d.ddd` times ten to the power of the exponent.
struct Shortest {
    negative: bool,
    digits: Buffer<MAX_DIGITS>,
    exponent: i32,
}

/// Text on the stack; what exceeds it is an error.
struct Buffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Buffer<N> {
    fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    fn text(&self) -> &str {
        self.bytes.get(..self.length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Write for Buffer<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl Shortest {
    fn of_double(number: f64) -> Result<Self, &'static str> {
        let [distinct, _] = DISTINCT;
        let mut shortest = Self::read(number, format_args!("{number:e}"))?;
        if shortest.digits.length > distinct {
            shortest.settle_tie(number, |text| text.parse() == Ok(number));
        }
        Ok(shortest)
    }

    fn of_single(number: f32) -> Result<Self, &'static str> {
        let [_, distinct] = DISTINCT;
        let mut shortest = Self::read(f64::from(number), format_args!("{number:e}"))?;
        if shortest.digits.length > distinct {
            shortest.settle_tie(f64::from(number), |text| text.parse() == Ok(number));
        }
        Ok(shortest)
    }

    /// Reads what Rust prints with an exponent; the name of a number that is not finite.
    fn read(number: f64, text: fmt::Arguments<'_>) -> Result<Self, &'static str> {
        if !number.is_finite() {
            return Err(if number.is_nan() {
                "NaN"
            } else if number > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            });
        }
        let mut written = Buffer::<32>::new();
        // The text has at most 25 bytes.
        let _ = written.write_fmt(text);
        let (mantissa, exponent) = written.text().split_once('e').unwrap_or_default();
        let mut digits = Buffer::new();
        mantissa.bytes().filter(u8::is_ascii_digit).for_each(|digit| {
            let _ = digits.write_char(char::from(digit));
        });
        Ok(Self { negative: number.is_sign_negative(), digits, exponent: exponent.parse().unwrap_or(0) })
    }

    /// Takes the even one of two texts of this length that are equally close to the number and both read back as it.
    fn settle_tie(&mut self, number: f64, reads_back: impl Fn(&str) -> bool) {
        let length = self.digits.length;
        let Some(last) = length.checked_sub(1).and_then(|at| self.digits.bytes.get_mut(at)) else { return };
        if *last % 2 == 0 {
            return;
        }
        *last -= 1;
        let mut exact = Buffer::<64>::new();
        // More digits than a number this close to the middle can have without being the middle.
        let _ = write!(exact, "{:.50e}", number.abs());
        let mut digits = exact.text().bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit);
        let is_middle = self.digits.text().bytes().all(|digit| digits.next() == Some(digit))
            && digits.next() == Some(b'5')
            && digits.all(|digit| digit == b'0');
        let mut text = Buffer::<32>::new();
        let _ = write!(text, "{}", fmt::from_fn(|f| self.scientific(f, 1)));
        if !is_middle || !reads_back(text.text()) {
            let last = length.checked_sub(1).and_then(|at| self.digits.bytes.get_mut(at));
            last.into_iter().for_each(|last| *last += 1);
        }
    }

    fn sign(&self) -> &'static str {
        if self.negative { "-" } else { "" }
    }

    fn plain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits.text();
        f.write_str(self.sign())?;
        let Ok(whole) = usize::try_from(self.exponent) else {
            f.write_str("0.")?;
            zeros(f, self.exponent.unsigned_abs() as usize - 1)?;
            return f.write_str(digits);
        };
        match digits.split_at_checked(whole + 1) {
            Some((whole, "")) => f.write_str(whole),
            Some((whole, fraction)) => write!(f, "{whole}.{fraction}"),
            None => {
                f.write_str(digits)?;
                zeros(f, whole + 1 - digits.len())
            }
        }
    }

    fn general(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (-4..6).contains(&self.exponent) { self.plain(f) } else { self.scientific(f, 2) }
    }

    /// With a sign and at least `width` digits in the exponent.
    fn scientific(&self, f: &mut fmt::Formatter<'_>, width: usize) -> fmt::Result {
        let (first, fraction) = self.digits.text().split_at_checked(1).unwrap_or_default();
        let point = if fraction.is_empty() { "" } else { "." };
        let sign = if self.exponent < 0 { '-' } else { '+' };
        let exponent = self.exponent.unsigned_abs();
        write!(f, "{}{first}{point}{fraction}e{sign}{exponent:0>width$}", self.sign())
    }
}

fn zeros(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    (0..count).try_for_each(|_| f.write_char('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::excessive_precision,
        reason = "these are the ties: numbers halfway between two shorter texts"
    )]
    fn equally_close_texts_are_settled_as_in_go() {
        for (number, text) in [
            (99_999_999_999_998.125, "99999999999998.12"),
            (99_999_999_999_998.375, "99999999999998.38"),
            (99_999_999_999_998.625, "99999999999998.62"),
            (99_999_999_999_998.875, "99999999999998.88"),
            (-99_999_999_999_998.125, "-99999999999998.12"),
            (1_125_899_906_842_624.25, "1125899906842624.2"),
            (1_125_899_906_842_624.75, "1125899906842624.8"),
        ] {
            assert_eq!(plain(number).to_string(), text);
            assert_eq!(text.parse(), Ok(number));
        }
        assert_eq!(general(99_999_999_999_998.125).to_string(), "9.999999999999812e+13");
        assert_eq!(json(99_999_999_999_998.125).to_string(), "99999999999998.12");
        assert_eq!(general_single(16_777_217.5).to_string(), "1.6777218e+07");
        assert_eq!(general_single(2_097_152.25).to_string(), "2.0971522e+06");
        assert_eq!(general_single(2_097_152.75).to_string(), "2.0971528e+06");
    }

    #[test]
    fn exponents_appear_where_go_writes_them() {
        for (number, without, general_text, json_text) in [
            (0.0, "0", "0", "0"),
            (-0.0, "-0", "-0", "-0"),
            (1.5, "1.5", "1.5", "1.5"),
            (-200.0, "-200", "-200", "-200"),
            (0.0001, "0.0001", "0.0001", "0.0001"),
            (0.000_099_9, "0.0000999", "9.99e-05", "0.0000999"),
            (999_999.0, "999999", "999999", "999999"),
            (1e6, "1000000", "1e+06", "1000000"),
            (0.000_001, "0.000001", "1e-06", "0.000001"),
            (1.5e-7, "0.00000015", "1.5e-07", "1.5e-7"),
            (1e-10, "0.0000000001", "1e-10", "1e-10"),
            (1e20, "100000000000000000000", "1e+20", "100000000000000000000"),
            (1e21, "1000000000000000000000", "1e+21", "1e+21"),
            (1.25e300, &format!("125{}", "0".repeat(298)), "1.25e+300", "1.25e+300"),
            (5e-324, &format!("0.{}5", "0".repeat(323)), "5e-324", "5e-324"),
            (f64::NAN, "NaN", "NaN", "NaN"),
            (f64::INFINITY, "+Inf", "+Inf", "+Inf"),
            (f64::NEG_INFINITY, "-Inf", "-Inf", "-Inf"),
        ] {
            assert_eq!(plain(number).to_string(), without);
            assert_eq!(general(number).to_string(), general_text);
            assert_eq!(json(number).to_string(), json_text);
        }
        for (number, text) in [(0.1f32, "0.1"), (-1.5e30, "-1.5e+30"), (f32::INFINITY, "+Inf")] {
            assert_eq!(general_single(number).to_string(), text);
        }
    }

    #[test]
    fn numbers_read_back() {
        let mut bits: u64 = 7;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let short = (bits >> 11) as f64 / f64::from(1 << (bits % 16) as i32);
            for number in [f64::from_bits(bits), short].into_iter().filter(|number| number.is_finite()) {
                assert_eq!(plain(number).to_string().parse(), Ok(number));
                assert_eq!(general(number).to_string().parse(), Ok(number));
            }
        }
    }
}
