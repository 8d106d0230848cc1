//! The Huffman code of string literals. Spec: RFC 7541 section 5.2 and appendix B.

use std::sync::LazyLock;

/// Code length of each byte in bits. The code is canonical, so the lengths determine it. EOS is 30 ones.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Bits per table look-up.
const FAST_BITS: u32 = 8;
const LONGEST: usize = 30;

struct Table {
    /// Symbol and length by the next eight bits; length 0 for longer codes.
    fast: [(u8, u8); 1 << FAST_BITS],
    /// By length: first code, number of codes, offset in `symbols`.
    lengths: [(u32, u32, usize); LONGEST + 1],
    /// In code order.
    symbols: Vec<u8>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut symbols: Vec<u8> = (0..=u8::MAX).collect();
    let length = |symbol: u8| LENGTHS.get(usize::from(symbol)).copied().unwrap_or(0);
    symbols.sort_by_key(|symbol| (length(*symbol), *symbol));
    let mut table =
        Table { fast: [(0, 0); 1 << FAST_BITS], lengths: [(0, 0, 0); LONGEST + 1], symbols: Vec::new() };
    let (mut code, mut before) = (0_u32, 0_u8);
    for (at, symbol) in symbols.iter().enumerate() {
        let bits = length(*symbol);
        code <<= bits - before;
        before = bits;
        if let Some(row) = table.lengths.get_mut(usize::from(bits)) {
            if row.1 == 0 {
                *row = (code, 0, at);
            }
            row.1 += 1;
        }
        if let Some(spare) = FAST_BITS.checked_sub(u32::from(bits)) {
            let first = (code << spare) as usize;
            table.fast.iter_mut().skip(first).take(1 << spare).for_each(|cell| *cell = (*symbol, bits));
        }
        code += 1;
    }
    table.symbols = symbols;
    table
});

/// Decodes `input` into `out`; false for an invalid code, invalid padding, or more than `most` bytes.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>, most: usize) -> bool {
    let table = &*TABLE;
    // The next bits, left-aligned.
    let (mut bits, mut count) = (0_u64, 0_u32);
    let mut input = input.iter();
    let limit = out.len() + most;
    loop {
        while count <= 56
            && let Some(byte) = input.next()
        {
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        let Some(&(symbol, length)) = table.fast.get((bits >> (64 - FAST_BITS)) as usize) else {
            return false;
        };
        let (symbol, length) = match u32::from(length) {
            0 => match long_code(table, bits) {
                Some(found) => found,
                // Padding, or an invalid code.
                None => return count < 8 && is_padding(bits, count),
            },
            length => (symbol, length),
        };
        if length > count {
            return count < 8 && is_padding(bits, count);
        }
        if out.len() == limit {
            return false;
        }
        out.push(symbol);
        bits <<= length;
        count -= length;
    }
}

fn long_code(table: &Table, bits: u64) -> Option<(u8, u32)> {
    (FAST_BITS + 1..=LONGEST as u32).find_map(|length| {
        let (first, count, at) = *table.lengths.get(length as usize)?;
        let ahead = ((bits >> (64 - length)) as u32).checked_sub(first).filter(|ahead| *ahead < count)?;
        Some((*table.symbols.get(at + ahead as usize)?, length))
    })
}

/// Whether the last `count` bits are ones.
fn is_padding(bits: u64, count: u32) -> bool {
    count == 0 || bits >> (64 - count) == (1 << count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(input, &mut out, 1000).then_some(out)
    }

    #[test]
    fn the_examples_of_rfc_7541_decode() {
        for (code, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], "custom-key"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf], "custom-value"),
            (&[], ""),
        ] {
            assert_eq!(decoded(code).as_deref(), Some(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn every_byte_has_a_code_of_its_own() {
        let table = &*TABLE;
        for symbol in 0..=u8::MAX {
            let at = table.symbols.iter().position(|s| *s == symbol).unwrap();
            let bits = LENGTHS[usize::from(symbol)];
            let (first, _, begin) = table.lengths[usize::from(bits)];
            let code = u64::from(first) + (at - begin) as u64;
            // Padded with ones to a whole byte.
            let total = u32::from(bits).div_ceil(8) * 8;
            let spare = total - u32::from(bits);
            let padded = (code << spare) | ((1 << spare) - 1);
            let bytes = padded.to_be_bytes();
            assert_eq!(decoded(&bytes[8 - total as usize / 8..]), Some(vec![symbol]), "{symbol}");
        }
    }

    #[test]
    fn bad_padding_is_refused() {
        // A byte of ones, zeros as padding, EOS, a truncated code.
        for bad in [&[0xf1, 0xe3, 0xc2, 0xff, 0xff][..], &[0x00], &[0xff, 0xff, 0xff, 0xff], &[0xff]] {
            assert_eq!(decoded(bad), None, "{bad:x?}");
        }
        // `0` has five zeros; three ones are padding.
        assert_eq!(decoded(&[0x07]), Some(b"0".to_vec()));
    }

    #[test]
    fn output_is_bounded() {
        let mut out = Vec::new();
        assert!(!decode(&[0, 0, 0, 0, 0], &mut out, 7));
        assert_eq!(out, b"0000000");
    }
}
