//! Floats of 16 bits: half precision, and those with the exponents of a single.

/// The number that bits of half precision stand for.
pub fn single_of_half(bits: u16) -> f32 {
    let (sign, exponent, fraction) =
        (u32::from(bits >> 15), u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    // The smallest ones are multiples of 2^-24.
    #[allow(clippy::cast_precision_loss, reason = "less than 2^10")]
    let small = (fraction as f32 / 16_777_216.0).to_bits();
    let usual = (exponent + if exponent == 0x1f { 224 } else { 112 }) << 23 | fraction << 13;
    f32::from_bits(sign << 31 | if exponent == 0 { small } else { usual })
}

/// The bits of the nearest number of half precision, of two equally near the even one.
pub fn half_of_single(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // All are worked out and one is taken, so that many numbers can be made at once.
    // Below 2^-14 they are multiples of 2^-24, as singles from a half on are.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    // Rounding up to the next exponent carries over by itself; what is too large is infinite.
    let usual = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    let number = if magnitude < 0x3880_0000 { small } else { usual.min(0x7c00) };
    let rounded = if magnitude > 0x7f80_0000 { 0x7e00 } else { number };
    lowest(sign | rounded)
}

/// The number that such bits with the exponents of a single stand for.
pub fn single_of_brain(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest number with the exponents of a single, of two equally near the even one.
pub fn brain_of_single(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return lowest(bits >> 16 & 0x8000 | 0x7fc0);
    }
    lowest((bits + 0x7fff + (bits >> 16 & 1)) >> 16)
}

/// A single whose nearest float of 16 bits is that of the double: where it is not the double itself, the one of
/// its two neighbours whose last bit is 1.
pub fn single_to_odd(value: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "the nearest single is mended below")]
    let nearest = value as f32;
    let is_kept = f64::from(nearest).to_bits() == value.to_bits() || value.is_nan();
    let is_above = f64::from(nearest).abs() > value.abs();
    let odd = nearest.to_bits().wrapping_sub(u32::from(is_above)) | 1;
    f32::from_bits(if is_kept { nearest.to_bits() } else { odd })
}

#[allow(clippy::cast_possible_truncation, reason = "callers have no more than 16 bits")]
fn lowest(bits: u32) -> u16 {
    bits as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_keeps_its_value() {
        let cases = [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (1, 5.960_464_5e-8), (0x8000, -0.0)];
        for (bits, value) in cases {
            assert_eq!(single_of_half(bits).to_bits(), f32::to_bits(value), "{bits:x}");
        }
        assert_eq!(single_of_half(0xfc00).to_bits(), f32::NEG_INFINITY.to_bits());
        assert!(single_of_half(0x7e01).is_nan());
    }

    #[test]
    fn every_float_of_16_bits_is_the_nearest_to_itself_and_to_what_lies_around_it() {
        type Both = (fn(u16) -> f32, fn(f32) -> u16);
        let both: [Both; 2] = [(single_of_half, half_of_single), (single_of_brain, brain_of_single)];
        for (single, narrow) in both {
            for bits in 0..u16::MAX {
                let value = single(bits);
                if value.is_nan() {
                    assert!(single(narrow(value)).is_nan());
                    continue;
                }
                assert_eq!(narrow(value), bits);
                let next = single(bits + 1);
                if !value.is_finite() || !next.is_finite() || bits == 0x7fff {
                    continue;
                }
                // Doubles hold the middle, and what lies beside it.
                let middle = f64::midpoint(f64::from(value), f64::from(next));
                let even = if bits % 2 == 0 { bits } else { bits + 1 };
                assert_eq!(narrow(single_to_odd(middle)), even, "{middle:e}");
                let away = middle.abs().next_up().copysign(middle);
                assert_eq!(narrow(single_to_odd(away)), bits + 1, "{away:e}");
                let towards = middle.abs().next_down().copysign(middle);
                assert_eq!(narrow(single_to_odd(towards)), bits, "{towards:e}");
            }
        }
        assert_eq!(half_of_single(65520.0), 0x7c00);
        assert_eq!(half_of_single(65519.0), 0x7bff);
        assert_eq!(brain_of_single(f32::MAX), 0x7f80);
    }
}
