//! Casts: from the numbers that a file holds to those that a tensor holds, checked; and hashing to buckets.
//!
//! There is one rule: a cast keeps every number, except that a float is rounded to the nearest one of a
//! narrower float type. A number that can't be kept is a misfit. Misfits are: an integer that the type does
//! not hold exactly, if it is not asked to round it; a fraction, an infinity or a NaN cast to an integer; and a
//! finite float that would become infinite.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::schema::buckets::Buckets;
use crate::schema::shaping::{Clip, Shaping};
use crate::schema::types::Dtype;

/// Casts numbers of one type to another. Returns false if one is a misfit; its place may hold anything.
type Loop = fn(&[u8], &mut [u8]) -> bool;

/// The cast of a column's numbers.
#[derive(Debug, Clone, Copy)]
pub struct NumberCast {
    stored: Dtype,
    delivered: Dtype,
    how: How,
}

#[derive(Debug, Clone, Copy)]
enum How {
    /// Their bits do not change.
    Copied,
    Cast(Loop),
    Hashed(Buckets),
    /// Numbers, as the integers that they are.
    CastAndHashed(Loop, Buckets),
    /// Numbers between two bounds, others as these.
    Clipped(ClippedCast),
    /// They become differences to a floor, which is added again before they are delivered.
    Lowered(u64),
}

impl How {
    /// The loop, where their bits change.
    fn cast(self) -> Option<Loop> {
        if let Self::Cast(cast) = self { Some(cast) } else { None }
    }
}

impl NumberCast {
    /// The cast of numbers that are converted so; `None` if there is none.
    #[must_use]
    pub fn of(shaping: Shaping, stored: Dtype, delivered: Dtype) -> Option<Self> {
        match shaping {
            Shaping::Hashed(_, buckets) => Self::hashed(stored, buckets),
            Shaping::Rounded(_) => Self::rounded(stored, delivered),
            Shaping::Clipped(from, clip) => {
                // A cast takes short integers as files hold them.
                let from = match from {
                    Dtype::Int8 | Dtype::Int16 if from != delivered => Dtype::Int32,
                    Dtype::Uint8 | Dtype::Uint16 if from != delivered => Dtype::Uint32,
                    _ => from,
                };
                let first = Self::new(stored, from)?.how.cast();
                let cast = if clip.is_rounding { Self::rounded } else { Self::new };
                let then = if from == delivered { None } else { cast(from, delivered)?.how.cast() };
                Some(Self { stored, delivered, how: How::Clipped(ClippedCast { first, from, clip, then }) })
            }
            Shaping::None | Shaping::Cast(_) | Shaping::Coded(..) => Self::new(stored, delivered),
        }
    }

    /// A cast from one type to another; `None` if there is none. Integers of less than 32 bits are stored in
    /// 32.
    #[must_use]
    pub fn new(stored: Dtype, delivered: Dtype) -> Option<Self> {
        use Dtype::{Int8, Int16, Int32, Uint8, Uint16, Uint32};
        let is_copied = match (stored, delivered) {
            (Int8 | Int16, Int32) | (Uint8 | Uint16, Int32 | Uint32) => true,
            _ => stored == delivered && (Self::width_of(stored) == delivered.width()),
        };
        let how = if is_copied { How::Copied } else { How::Cast(cast::<false>(stored, delivered)?) };
        Some(Self { stored, delivered, how })
    }

    /// The same, where integers become the nearest float of the type.
    #[must_use]
    pub fn rounded(stored: Dtype, delivered: Dtype) -> Option<Self> {
        if !stored.is_integer() || !delivered.is_float() {
            return Self::new(stored, delivered);
        }
        Some(Self { stored, delivered, how: How::Cast(cast::<true>(stored, delivered)?) })
    }

    /// A cast from integers, and from other numbers that are whole, to buckets.
    #[must_use]
    pub fn hashed(stored: Dtype, buckets: Buckets) -> Option<Self> {
        let how = if stored.is_integer() {
            How::Hashed(buckets)
        } else {
            How::CastAndHashed(cast::<false>(stored, Dtype::Int64)?, buckets)
        };
        Some(Self { stored, delivered: Dtype::Int64, how })
    }

    /// A cast from 64-bit integers to 32-bit differences to a floor.
    #[must_use]
    pub fn lowered(stored: Dtype, floor: u64) -> Self {
        Self { stored, delivered: Dtype::Uint32, how: How::Lowered(floor) }
    }

    /// The type of the numbers in the file.
    pub fn stored(&self) -> Dtype {
        self.stored
    }

    /// Bytes of a number in the file, and in the tensor.
    pub fn widths(&self) -> (usize, usize) {
        (Self::width_of(self.stored), self.delivered.width())
    }

    fn width_of(stored: Dtype) -> usize {
        if stored.is_integer() { stored.width().max(4) } else { stored.width() }
    }

    /// Whether the bits do not change.
    pub fn is_copied(&self) -> bool {
        matches!(self.how, How::Copied)
    }

    /// Casts all of the numbers. Returns false if one is a misfit; its place may hold anything.
    pub fn write(&self, numbers: &[u8], places: &mut [u8]) -> bool {
        match self.how {
            How::Copied => {
                places.copy_from_slice(numbers);
                true
            }
            How::Cast(cast) => cast(numbers, places),
            How::Hashed(buckets) => {
                put_in_buckets(self.stored, buckets, numbers, bytemuck::cast_slice_mut(places));
                true
            }
            How::CastAndHashed(cast, buckets) => {
                let fits = cast(numbers, places);
                for place in bytemuck::cast_slice_mut::<u8, u64>(places) {
                    *place = buckets.of_integer(*place);
                }
                fits
            }
            How::Clipped(clip) => clip.write(numbers, places, self.widths()),
            How::Lowered(floor) => {
                lower(bytemuck::cast_slice(numbers), floor, bytemuck::cast_slice_mut(places))
            }
        }
    }

    /// Casts a 64-bit number, and writes it to its place.
    ///
    /// # Errors
    /// The message for a misfit.
    pub fn write_one(&self, number: u64, place: &mut [u8]) -> std::result::Result<(), String> {
        // Numbers are read where they are aligned.
        let mut delivered = [0_u64];
        let bytes = &mut bytemuck::cast_slice_mut(&mut delivered)[..self.delivered.width()];
        if !self.write(bytemuck::bytes_of(&number), bytes) {
            return Err(self.misfit(bytemuck::bytes_of(&number)));
        }
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// The message for a number that does not fit.
    pub fn misfit(&self, number: &[u8]) -> String {
        let value = text(self.stored, number);
        let delivered = self.delivered.name();
        let (how, or) = if self.stored.is_integer() && self.delivered.is_float() {
            (" exactly", format!(", and .cast(torch.{delivered}, rounding=True) takes the nearest"))
        } else {
            ("", String::new())
        };
        format!("{value}, which does not fit {delivered}{how}: .cast() can name a type that holds it{or}")
    }
}

/// Numbers that are cast to the type of bounds, if their bits change, and from it, if they are.
#[derive(Debug, Clone, Copy)]
struct ClippedCast {
    first: Option<Loop>,
    from: Dtype,
    clip: Clip,
    then: Option<Loop>,
}

impl ClippedCast {
    /// So many numbers are clipped at a time where they are cast afterwards.
    const STEP: usize = 128;

    /// Returns false if one is a misfit.
    fn write(&self, numbers: &[u8], places: &mut [u8], (stored, delivered): (usize, usize)) -> bool {
        let cast = |numbers: &[u8], clipped: &mut [u8]| {
            let Some(first) = self.first else {
                clipped.copy_from_slice(numbers);
                return true;
            };
            first(numbers, clipped)
        };
        let Some(then) = self.then else {
            let fits = cast(numbers, places);
            self.clip.keep(self.from, places);
            return fits;
        };
        let mut fits = true;
        let mut room = [0_u64; Self::STEP];
        let room: &mut [u8] = bytemuck::cast_slice_mut(&mut room);
        let steps = places.chunks_mut(Self::STEP * delivered);
        for (places, numbers) in steps.zip(numbers.chunks(Self::STEP * stored)) {
            let clipped = &mut room[..numbers.len() / stored * self.from.width()];
            fits &= cast(numbers, clipped);
            self.clip.keep(self.from, clipped);
            fits &= then(clipped, places);
        }
        fits
    }
}

/// Writes the differences of numbers to a floor. Returns false if one is negative, or too large.
#[allow(clippy::cast_possible_truncation, reason = "it is seen in the end whether one did not fit")]
fn lower(numbers: &[u64], floor: u64, places: &mut [u32]) -> bool {
    let mut all = 0;
    for (place, number) in places.iter_mut().zip(numbers) {
        let above = number.wrapping_sub(floor);
        all |= above;
        *place = above as u32;
    }
    u32::try_from(all).is_ok()
}

/// A type whose numbers a file holds.
trait CastSource {
    type Bits: Pod;
    const IS_FLOAT: bool;
    fn cast<T: CastTarget>(bits: Self::Bits) -> Option<T::Bits>;
    fn nearest<T: CastTarget>(bits: Self::Bits) -> Option<T::Bits>;
}

/// A type in which a tensor holds numbers.
trait CastTarget {
    type Bits: Pod;
    fn of_signed(value: i64) -> Option<Self::Bits>;
    fn of_unsigned(value: u64) -> Option<Self::Bits>;
    fn of_double(value: f64) -> Option<Self::Bits>;

    fn of_single(value: f32) -> Option<Self::Bits> {
        Self::of_double(value.into())
    }

    /// The nearest number of the type.
    fn near_signed(value: i64) -> Option<Self::Bits> {
        Self::of_signed(value)
    }

    /// The nearest number of the type.
    fn near_unsigned(value: u64) -> Option<Self::Bits> {
        Self::of_unsigned(value)
    }
}

struct Truth;

/// Integers of 32 bits, and shorter ones, which are stored in 32.
struct Short<const IS_SIGNED: bool>;

macro_rules! sources {
    ($($source:ty, $bits:ty, $take:ident, $near:ident, $is_float:literal, |$value:ident| $number:expr;)*) => {
        $(impl CastSource for $source {
            type Bits = $bits;
            const IS_FLOAT: bool = $is_float;
            #[inline]
            fn cast<T: CastTarget>($value: $bits) -> Option<T::Bits> {
                T::$take($number)
            }
            #[inline]
            fn nearest<T: CastTarget>($value: $bits) -> Option<T::Bits> {
                T::$near($number)
            }
        })*
    };
}

sources! {
    Truth, u8, of_unsigned, near_unsigned, false, |bits| bits.into();
    Short<true>, u32, of_signed, near_signed, false, |bits| bits.cast_signed().into();
    Short<false>, u32, of_unsigned, near_unsigned, false, |bits| bits.into();
    i64, u64, of_signed, near_signed, false, |bits| bits.cast_signed();
    u64, u64, of_unsigned, near_unsigned, false, |bits| bits;
    f16, u16, of_single, of_single, true, |bits| f16::from_bits(bits).to_f32();
    f32, u32, of_single, of_single, true, |bits| f32::from_bits(bits);
    f64, u64, of_double, of_double, true, |bits| f64::from_bits(bits);
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(#[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            clippy::float_cmp,
            reason = "what is lost is compared; bounds are powers of two, or small"
        )]
        impl CastTarget for $type {
            type Bits = $type;
            #[inline]
            fn of_signed(value: i64) -> Option<$type> {
                value.try_into().ok()
            }
            #[inline]
            fn of_unsigned(value: u64) -> Option<$type> {
                value.try_into().ok()
            }
            #[inline]
            fn of_double(value: f64) -> Option<$type> {
                let end = (<$type>::MAX / 2 + 1) as f64 * 2.0;
                let is_within = value >= <$type>::MIN as f64 && value < end;
                let whole = value as $type;
                (is_within && whole as f64 == value).then_some(whole)
            }
        })*
    };
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

impl CastTarget for Truth {
    type Bits = u8;

    fn of_signed(value: i64) -> Option<u8> {
        u8::of_signed(value).filter(|value| *value <= 1)
    }

    fn of_unsigned(value: u64) -> Option<u8> {
        u8::of_unsigned(value).filter(|value| *value <= 1)
    }

    fn of_double(value: f64) -> Option<u8> {
        u8::of_double(value).filter(|value| *value <= 1)
    }
}

/// Floats hold an integer exactly if casting back gives it again. The largest integers round up to a number
/// beyond their type.
macro_rules! wide_floats {
    ($($type:ty, |$value:ident| $nearest:expr;)*) => {
        $(#[allow(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "what is lost is compared"
        )]
        impl CastTarget for $type {
            type Bits = $type;
            #[inline]
            fn of_signed(value: i64) -> Option<$type> {
                let float = value as $type;
                (float as i64 == value && float < i64::MAX as $type).then_some(float)
            }
            #[inline]
            fn of_unsigned(value: u64) -> Option<$type> {
                let float = value as $type;
                (float as u64 == value && float < u64::MAX as $type).then_some(float)
            }
            #[inline]
            fn near_signed(value: i64) -> Option<$type> {
                Some(value as $type)
            }
            #[inline]
            fn near_unsigned(value: u64) -> Option<$type> {
                Some(value as $type)
            }
            #[inline]
            fn of_double($value: f64) -> Option<$type> {
                $nearest
            }
        })*
    };
}

wide_floats! {
    f32, |value| {
        let single = value as f32;
        (single.is_finite() || !value.is_finite()).then_some(single)
    };
    f64, |value| Some(value);
}

/// A number is infinite or NaN if all bits of the exponent are 1. An integer is kept if the bits that the
/// narrow type drops are 0: integers are never subnormal, where more bits are dropped.
macro_rules! narrow_floats {
    ($($type:ty, exponent $exponent:literal, lost $lost:literal;)*) => {
        $(impl CastTarget for $type {
            type Bits = u16;
            #[inline]
            fn of_signed(value: i64) -> Option<u16> {
                let single = f32::of_signed(value)?;
                let bits = <$type>::from_f32(single).to_bits();
                (single.to_bits().trailing_zeros() >= $lost && bits & $exponent != $exponent).then_some(bits)
            }
            #[inline]
            fn of_unsigned(value: u64) -> Option<u16> {
                let single = f32::of_unsigned(value)?;
                let bits = <$type>::from_f32(single).to_bits();
                (single.to_bits().trailing_zeros() >= $lost && bits & $exponent != $exponent).then_some(bits)
            }
            #[inline]
            fn near_signed(value: i64) -> Option<u16> {
                let negative = if value < 0 { -1.0 } else { 1.0 };
                Self::of_single(negative * integer_to_odd(value.unsigned_abs()))
            }
            #[inline]
            fn near_unsigned(value: u64) -> Option<u16> {
                Self::of_single(integer_to_odd(value))
            }
            #[inline]
            fn of_double(value: f64) -> Option<u16> {
                let bits = <$type>::from_f32(single_to_odd(value)).to_bits();
                (bits & $exponent != $exponent || !value.is_finite()).then_some(bits)
            }
            #[inline]
            fn of_single(value: f32) -> Option<u16> {
                let bits = <$type>::from_f32(value).to_bits();
                (bits & $exponent != $exponent || !value.is_finite()).then_some(bits)
            }
        })*
    };
}

narrow_floats! {
    f16, exponent 0x7c00, lost 13;
    bf16, exponent 0x7f80, lost 16;
}

/// A float32 that rounds to the same 16-bit float as the float64 does. Where the float64 is no float32
/// itself, it is that one of its two neighbours whose last bit is 1.
pub fn single_to_odd(value: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "the nearest single is mended below")]
    let nearest = value as f32;
    let is_kept = f64::from(nearest).to_bits() == value.to_bits() || value.is_nan();
    let is_above = f64::from(nearest).abs() > value.abs();
    let odd = nearest.to_bits().wrapping_sub(u32::from(is_above)) | 1;
    f32::from_bits(if is_kept { nearest.to_bits() } else { odd })
}

/// A float32 that rounds to the same 16-bit float as the integer does: as for [`single_to_odd`].
fn integer_to_odd(value: u64) -> f32 {
    #[allow(clippy::cast_precision_loss, reason = "the nearest single is mended below")]
    let nearest = value as f32;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole, and at most 2^64"
    )]
    let whole = nearest as u128;
    let odd = nearest.to_bits().wrapping_sub(u32::from(whole > value.into())) | 1;
    f32::from_bits(if whole == value.into() { nearest.to_bits() } else { odd })
}

fn each<S: CastSource, T: CastTarget, const NEAREST: bool>(numbers: &[u8], places: &mut [u8]) -> bool {
    let mut fits = true;
    let numbers: &[S::Bits] = bytemuck::cast_slice(numbers);
    for (place, &bits) in bytemuck::cast_slice_mut(places).iter_mut().zip(numbers) {
        match if NEAREST { S::nearest::<T>(bits) } else { S::cast::<T>(bits) } {
            // Without a branch, many floats are cast at once; the checks of integers are cheaper with one.
            value if S::IS_FLOAT => {
                fits &= value.is_some();
                *place = value.unwrap_or(T::Bits::zeroed());
            }
            Some(value) => *place = value,
            None => fits = false,
        }
    }
    fits
}

fn cast<const NEAREST: bool>(stored: Dtype, delivered: Dtype) -> Option<Loop> {
    macro_rules! from {
        ($source:ty) => {
            match delivered {
                Dtype::Bool => each::<$source, Truth, NEAREST>,
                Dtype::Int8 => each::<$source, i8, NEAREST>,
                Dtype::Int16 => each::<$source, i16, NEAREST>,
                Dtype::Int32 => each::<$source, i32, NEAREST>,
                Dtype::Int64 => each::<$source, i64, NEAREST>,
                Dtype::Uint8 => each::<$source, u8, NEAREST>,
                Dtype::Uint16 => each::<$source, u16, NEAREST>,
                Dtype::Uint32 => each::<$source, u32, NEAREST>,
                Dtype::Uint64 => each::<$source, u64, NEAREST>,
                Dtype::Float16 => each::<$source, f16, NEAREST>,
                Dtype::Bfloat16 => each::<$source, bf16, NEAREST>,
                Dtype::Float32 => each::<$source, f32, NEAREST>,
                Dtype::Float64 => each::<$source, f64, NEAREST>,
            }
        };
    }
    Some(match stored {
        Dtype::Bool => from!(Truth),
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => from!(Short<true>),
        Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 => from!(Short<false>),
        Dtype::Int64 => from!(i64),
        Dtype::Uint64 => from!(u64),
        Dtype::Float16 => from!(f16),
        Dtype::Float32 => from!(f32),
        Dtype::Float64 => from!(f64),
        // No file holds these.
        Dtype::Bfloat16 => return None,
    })
}

fn put_in_buckets(stored: Dtype, buckets: Buckets, numbers: &[u8], places: &mut [u64]) {
    fn put<P: Pod>(numbers: &[u8], places: &mut [u64], bucket: impl Fn(P) -> u64) {
        for (place, &bits) in places.iter_mut().zip(bytemuck::cast_slice(numbers)) {
            *place = bucket(bits);
        }
    }
    match stored {
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => {
            put(numbers, places, |number: i32| buckets.of_integer(i64::from(number).cast_unsigned()));
        }
        Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 => {
            put(numbers, places, |number: u32| buckets.of_integer(number.into()));
        }
        _ => put(numbers, places, |number: u64| buckets.of_integer(number)),
    }
}

/// A number as text, for people.
fn text(stored: Dtype, number: &[u8]) -> String {
    let mut bytes = [0; 8];
    let width = number.len().min(8);
    bytes[..width].copy_from_slice(&number[..width]);
    let bits = u64::from_le_bytes(bytes);
    let short = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let half = bytes.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
    match stored {
        Dtype::Bool => (bits != 0).to_string(),
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => short.cast_signed().to_string(),
        Dtype::Int64 => bits.cast_signed().to_string(),
        Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => bits.to_string(),
        Dtype::Float16 => format!("{:?}", f16::from_bits(half)),
        Dtype::Bfloat16 => format!("{:?}", bf16::from_bits(half)),
        Dtype::Float32 => format!("{:?}", f32::from_bits(short)),
        Dtype::Float64 => format!("{:?}", f64::from_bits(bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_becomes_the_nearest_float_of_16_bits() {
        type Both = (fn(u16) -> f64, fn(f64) -> u16);
        let both: [Both; 2] = [
            (|bits| f16::from_bits(bits).into(), |value| f16::from_f32(single_to_odd(value)).to_bits()),
            (|bits| bf16::from_bits(bits).into(), |value| bf16::from_f32(single_to_odd(value)).to_bits()),
        ];
        for (widened, narrowed) in both {
            for bits in 0..u16::MAX {
                let (value, next) = (widened(bits), widened(bits + 1));
                if value.is_nan() {
                    assert!(widened(narrowed(value)).is_nan());
                    continue;
                }
                assert_eq!(narrowed(value), bits);
                if !value.is_finite() || !next.is_finite() || bits == 0x7fff {
                    continue;
                }
                // float64 holds the middle, and the numbers beside it.
                let middle = f64::midpoint(value, next);
                let even = if bits % 2 == 0 { bits } else { bits + 1 };
                assert_eq!(narrowed(middle), even, "{middle:e}");
                let away = middle.abs().next_up().copysign(middle);
                assert_eq!(narrowed(away), bits + 1, "{away:e}");
                let towards = middle.abs().next_down().copysign(middle);
                assert_eq!(narrowed(towards), bits, "{towards:e}");
            }
        }
    }
}
