//! Numbers that users name, as the bits of a tensor's type.

use half::{bf16, f16};

use crate::schema::cast::single_to_odd;
use crate::schema::columns::Dtype;

/// Floats that are whole are integers up to this: 2^53.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A number that stands for a null.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fill {
    /// True or false, for truth values alone: anywhere else, it would be a switch that somebody looks for.
    Truth(bool),
    /// A whole number; a truth value is 0 or 1.
    Integer(i128),
    /// Any other.
    Float(f64),
    /// No number: an empty text.
    Empty,
}

impl std::fmt::Display for Fill {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truth(value) => formatter.write_str(if *value { "True" } else { "False" }),
            Self::Integer(value) => value.fmt(formatter),
            Self::Float(value) => write!(formatter, "{value:?}"),
            Self::Empty => formatter.write_str("''"),
        }
    }
}

/// What is said of the number that a type of floats would have in place of a whole one.
#[must_use]
pub fn nearest_to(value: Fill, dtype: Dtype) -> String {
    let nearest = rounded_bits(value, dtype).filter(|_| dtype.is_float()).map(|bits| widened(bits, dtype));
    nearest
        .filter(|nearest| nearest.is_finite())
        .map_or_else(String::new, |nearest| format!(": the nearest is {nearest}"))
}

/// The number of bits of a type of floats.
fn widened(bits: u64, dtype: Dtype) -> f64 {
    #[allow(clippy::cast_possible_truncation, reason = "the lowest bits are the number's")]
    let (single, half) = (bits as u32, bits as u16);
    match dtype {
        Dtype::Float16 => f16::from_bits(half).into(),
        Dtype::Bfloat16 => bf16::from_bits(half).into(),
        Dtype::Float32 => f32::from_bits(single).into(),
        _ => f64::from_bits(bits),
    }
}

/// The bits of a value in a type, if that can hold it: a whole number exactly, any other as the nearest float.
#[must_use]
pub fn bits_of(value: Fill, dtype: Dtype) -> Option<u64> {
    let bits = rounded_bits(value, dtype)?;
    let is_kept = match value {
        Fill::Integer(value) if dtype.is_float() => is_exactly(widened(bits, dtype), value),
        Fill::Float(value) if dtype.is_float() && value.fract() == 0.0 && value.abs() <= MAX_EXACT => {
            widened(bits, dtype).total_cmp(&value).is_eq()
        }
        _ => true,
    };
    is_kept.then_some(bits)
}

/// Whether a float is a whole number.
fn is_exactly(float: f64, value: i128) -> bool {
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of less than 2^127 is one")]
    let whole = float as i128;
    float.fract() == 0.0 && whole == value
}

/// The bits of a value in a type; those of the nearest float in a type of floats.
fn rounded_bits(value: Fill, dtype: Dtype) -> Option<u64> {
    if matches!(value, Fill::Truth(_)) && dtype != Dtype::Bool {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "a float holds the nearest number")]
    let float = match value {
        Fill::Empty => return None,
        Fill::Truth(value) => value.into(),
        Fill::Integer(value) => value as f64,
        Fill::Float(value) => value,
    };
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of at most 2^53")]
    let integer = match value {
        Fill::Truth(value) => Some(value.into()),
        Fill::Integer(value) => Some(value),
        Fill::Float(value) if value.fract() == 0.0 && value.abs() <= MAX_EXACT => Some(value as i128),
        Fill::Float(_) | Fill::Empty => None,
    };
    macro_rules! signed {
        ($type:ty) => {
            <$type>::try_from(integer?).ok().map(|value| i64::from(value).cast_unsigned())
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            <$type>::try_from(integer?).ok().map(u64::from)
        };
    }
    match dtype {
        Dtype::Bool => integer.filter(|value| (0..=1).contains(value)).map(|value| u64::from(value == 1)),
        Dtype::Int8 => signed!(i8),
        Dtype::Int16 => signed!(i16),
        Dtype::Int32 => signed!(i32),
        Dtype::Int64 => signed!(i64),
        Dtype::Uint8 => unsigned!(u8),
        Dtype::Uint16 => unsigned!(u16),
        Dtype::Uint32 => unsigned!(u32),
        Dtype::Uint64 => unsigned!(u64),
        Dtype::Float16 => {
            let nearest = f16::from_f32(single_to_odd(float));
            of_16_bits(float, nearest.to_bits(), nearest.is_finite())
        }
        Dtype::Bfloat16 => {
            let nearest = bf16::from_f32(single_to_odd(float));
            of_16_bits(float, nearest.to_bits(), nearest.is_finite())
        }
        #[allow(clippy::cast_possible_truncation, reason = "a float holds the nearest number")]
        Dtype::Float32 => {
            let single = float as f32;
            (single.is_finite() == float.is_finite()).then(|| u64::from(single.to_bits()))
        }
        Dtype::Float64 => Some(float.to_bits()),
    }
}

/// The bits of a float of 16 bits that is the nearest to a value; none if that is finite and beyond them.
fn of_16_bits(value: f64, bits: u16, is_finite: bool) -> Option<u64> {
    (is_finite == value.is_finite()).then_some(bits.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_the_nearest_one() {
        let cases = [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (0.1, 0x2e66),
            (6e-8, 1),
            (f64::INFINITY, 0x7c00),
        ];
        for (value, bits) in cases {
            assert_eq!(bits_of(Fill::Float(value), Dtype::Float16), Some(bits), "{value}");
        }
        assert_eq!(bits_of(Fill::Float(65520.0), Dtype::Float16), None);
        assert_eq!(bits_of(Fill::Float(2047.5 / 2048.0), Dtype::Float16), Some(0x3c00));
    }

    #[test]
    fn a_value_that_a_type_can_not_hold_is_none() {
        assert_eq!(bits_of(Fill::Float(1.5), Dtype::Int64), None);
        assert_eq!(bits_of(Fill::Integer(-1), Dtype::Uint8), None);
        assert_eq!(bits_of(Fill::Integer(2), Dtype::Bool), None);
        assert_eq!(bits_of(Fill::Truth(true), Dtype::Bool), Some(1));
        assert_eq!(bits_of(Fill::Truth(false), Dtype::Int64), None);
        assert_eq!(bits_of(Fill::Truth(true), Dtype::Float32), None);
        assert_eq!(bits_of(Fill::Integer(-1), Dtype::Int16), Some(u64::MAX));
        assert_eq!(bits_of(Fill::Float(1e300), Dtype::Float32), None);
        assert_eq!(bits_of(Fill::Float(3.0), Dtype::Int8), Some(3));
    }
}
