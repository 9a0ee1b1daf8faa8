//! Conversions of byte values (decimals, INT96, hashes) to the numbers that a tensor holds.

use crate::error::{Error, Result};
use crate::schema::buckets::Buckets;
use crate::schema::cast::NumberCast;

/// The Julian day of 1970-01-01.
const EPOCH_DAY: i128 = 2_440_588;

const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

/// Integers up to 2^53, and powers of ten up to this one, are exact as floats.
const MAX_EXACT: u64 = 1 << 53;
const MAX_EXACT_POWER: u32 = 22;

/// What is said of a decimal that is no integer of 64 bits.
const BEYOND_64_BITS: &str = "64 bits: .decimal(\"float64\") and .decimal(\"bytes\") have no bound";

/// The most bytes of a decimal: a longer one is treated as damage, since it would have 600 digits.
const MAX_DECIMAL_BYTES: usize = 256;

/// What the bytes of a value are converted to.
#[derive(Debug, Clone, Copy)]
pub enum Conversion {
    /// They are delivered as they are.
    Copied,
    /// The value's hash bucket, as 64 bits.
    Hashed(Buckets),
    /// INT96 (nanoseconds of a day, then the Julian day) to ticks of so many nanoseconds since 1970, as 64 bits.
    Instant(u32),
    /// A big-endian integer to int64.
    Integer,
    /// A big-endian integer in units of 10^-scale to the nearest float64.
    Decimal(u32),
    /// The same for a little-endian integer of 4 or 8 bytes.
    LowestFirst(u32),
}

impl Conversion {
    /// Writes a value to its place; `row` is its row number, for errors.
    ///
    /// # Errors
    /// `Data` if it does not fit.
    pub fn convert(self, value: &[u8], place: &mut [u8], row: usize) -> Result<()> {
        if value.len() > MAX_DECIMAL_BYTES && !matches!(self, Self::Copied | Self::Hashed(_)) {
            let length = value.len();
            return Err(misfit(
                row,
                &format!("a decimal of {length} bytes"),
                &format!("{MAX_DECIMAL_BYTES}"),
            ));
        }
        match self {
            Self::Copied => place.copy_from_slice(value),
            Self::Hashed(buckets) => place.copy_from_slice(&buckets.of_bytes(value).to_le_bytes()),
            Self::Instant(tick) => {
                let found = instant(value);
                let ticks = i64::try_from(found.div_euclid(tick.max(1).into())).map_err(|_| {
                    misfit(row, &format!("{found} ns since 1970"), "64 bits: the years 1678 to 2262")
                })?;
                place.copy_from_slice(&ticks.to_le_bytes());
            }
            Self::Integer => {
                let integer = integer(value)
                    .ok_or_else(|| misfit(row, &format!("the unscaled {}", digits(value)), BEYOND_64_BITS))?;
                place.copy_from_slice(&integer.to_le_bytes());
            }
            Self::Decimal(scale) => {
                let float = match integer(value) {
                    Some(integer) => scaled(integer, scale),
                    None => nearest(&digits(value), scale),
                };
                place.copy_from_slice(&float.to_le_bytes());
            }
            Self::LowestFirst(scale) => {
                let integer = match *value {
                    [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
                    _ => value.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)),
                };
                place.copy_from_slice(&scaled(integer, scale).to_le_bytes());
            }
        }
        Ok(())
    }
}

/// A conversion, and the cast of its number.
#[derive(Debug, Clone, Copy)]
pub struct Converter {
    pub conversion: Conversion,
    /// How the 64 bits of the conversion are cast; `None` if they are delivered as they are.
    pub then: Option<NumberCast>,
}

impl Converter {
    /// Whether values are delivered as they are.
    pub fn is_copied(self) -> bool {
        matches!(self.conversion, Conversion::Copied)
    }

    /// Whether a value may fail to fit.
    pub fn may_misfit(self) -> bool {
        self.then.is_some() || matches!(self.conversion, Conversion::Instant(_) | Conversion::Integer)
    }

    /// Writes a value to its place; `row` is its row number, for errors.
    ///
    /// # Errors
    /// `Data` if it does not fit.
    pub fn convert(self, value: &[u8], place: &mut [u8], row: usize) -> Result<()> {
        let Some(delivery) = self.then else { return self.conversion.convert(value, place, row) };
        let mut number = [0; 8];
        self.conversion.convert(value, &mut number, row)?;
        let written = delivery.write_one(u64::from_le_bytes(number), place);
        written.map_err(|misfit| Error::refused(format!("row {row} of the row group holds {misfit}")))
    }
}

fn misfit(row: usize, value: &str, what: &str) -> Error {
    Error::refused(format!("row {row} of the row group holds {value}, which does not fit {what}"))
}

/// Nanoseconds since 1970.
fn instant(value: &[u8]) -> i128 {
    let Some((of_day, day)) = value.split_first_chunk::<8>() else { return 0 };
    let day = day.first_chunk::<4>().map_or(0, |day| i32::from_le_bytes(*day));
    (i128::from(day) - EPOCH_DAY) * DAY_NANOSECONDS + i128::from(i64::from_le_bytes(*of_day))
}

/// The integer, if it fits an int64; that of no bytes is 0.
fn integer(value: &[u8]) -> Option<i64> {
    let sign = if value.first().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
    let (above, lowest) = value.split_at(value.len().saturating_sub(8));
    let mut bytes = [sign; 8];
    bytes[8 - lowest.len()..].copy_from_slice(lowest);
    let integer = i64::from_be_bytes(bytes);
    let is_whole = above.iter().all(|byte| *byte == sign) && (integer < 0) == (sign != 0);
    is_whole.then_some(integer)
}

/// The integer in units of 10^-scale.
fn scaled(integer: i64, scale: u32) -> f64 {
    if integer.unsigned_abs() > MAX_EXACT || scale > MAX_EXACT_POWER {
        return nearest(&integer.to_string(), scale);
    }
    #[allow(clippy::cast_precision_loss, reason = "at most 2^53")]
    let exact = integer as f64;
    // The quotient of two exact floats is rounded once.
    exact / POWERS[scale as usize]
}

const POWERS: [f64; MAX_EXACT_POWER as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// The float nearest to a whole number in units of 10^-scale.
fn nearest(digits: &str, scale: u32) -> f64 {
    // A number in this form always parses as a float.
    format!("{digits}e-{scale}").parse().unwrap_or(f64::NAN)
}

/// The decimal digits of a big-endian integer of any length.
fn digits(value: &[u8]) -> String {
    const STEP: u64 = 1_000_000_000;
    let is_negative = value.first().is_some_and(|byte| *byte >= 0x80);
    let mut left: Vec<u8> = value.to_vec();
    if is_negative {
        for byte in &mut left {
            *byte = !*byte;
        }
        // Plus one, with the carry from the last byte on.
        for byte in left.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }
    let mut parts = Vec::new();
    while left.iter().any(|byte| *byte != 0) {
        let mut rest = 0;
        for byte in &mut left {
            let step = rest << 8 | u64::from(*byte);
            // Less than 2^8, because the remainder is less than the divisor.
            *byte = u8::try_from(step / STEP).unwrap_or(u8::MAX);
            rest = step % STEP;
        }
        parts.push(rest);
    }
    let sign = if is_negative { "-" } else { "" };
    let first = parts.pop().unwrap_or(0);
    let others: Vec<String> = parts.iter().rev().map(|part| format!("{part:09}")).collect();
    format!("{sign}{first}{}", others.concat())
}

/// The shape of a row, in a column whose rows all have one length.
#[derive(Debug, Clone, Copy)]
pub struct RowShape {
    /// Bytes of an element.
    pub width: usize,
    /// Elements of a row.
    pub size: usize,
}

impl RowShape {
    /// Bytes of a row.
    pub fn bytes(self) -> usize {
        self.width * self.size
    }

    /// Sets all elements of a row to the value in the lowest bits.
    pub fn fill(self, row: &mut [u8], bits: u64) {
        for place in row.chunks_exact_mut(self.width) {
            place.copy_from_slice(&bits.to_le_bytes()[..self.width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_of_any_length_is_itself_or_none() {
        for value in [0, 1, -1, 127, -128, 255, 1 << 40, i64::MAX, i64::MIN] {
            let bytes = i128::from(value).to_be_bytes();
            assert_eq!(integer(&bytes), Some(value));
            assert_eq!(integer(&bytes[8..]), Some(value));
            assert_eq!(digits(&bytes), value.to_string());
        }
        assert_eq!(integer(&[]), Some(0));
        assert_eq!(integer(&[0xfe, 0x0c]), Some(-500));
        for value in [i128::from(i64::MAX) + 1, i128::from(i64::MIN) - 1, i128::MAX, i128::MIN] {
            assert_eq!(integer(&value.to_be_bytes()), None);
            assert_eq!(digits(&value.to_be_bytes()), value.to_string());
        }
    }

    #[test]
    fn a_decimal_is_the_nearest_float() {
        assert_eq!(scaled(-12_345, 2).to_bits(), (-123.45_f64).to_bits());
        assert_eq!(scaled(i64::MAX, 3).to_bits(), 9_223_372_036_854_775.807_f64.to_bits());
        assert_eq!(scaled(7, 30).to_bits(), 7e-30_f64.to_bits());
        assert_eq!(
            nearest(&digits(&i128::MAX.to_be_bytes()), 10).to_bits(),
            1.701_411_834_604_692_3e28_f64.to_bits()
        );
    }
}
