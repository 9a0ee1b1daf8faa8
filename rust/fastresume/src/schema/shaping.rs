//! The requested conversion of a column's values between file and tensor.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::schema::buckets::Buckets;
use crate::schema::types::Dtype;

/// How a column's values are converted, beyond what their type says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Shaping {
    /// Not at all.
    #[default]
    None,
    /// Cast from this type, which they would have.
    Cast(Dtype),
    /// The same, and integers become the nearest float.
    Rounded(Dtype),
    /// Kept between bounds, in this type, which they would have, and then cast from it.
    Clipped(Dtype, Clip),
    /// Hashed to buckets, from this type, which they would have.
    Hashed(Dtype, Buckets),
    /// Replaced by their codes in the column's vocabulary, from this type, which they would have; and whether
    /// they are strings.
    Coded(Dtype, bool),
}

/// Bounds of numbers: what is beyond one becomes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Clip {
    /// The bits of the least number, and of the greatest one.
    pub bounds: [Option<u64>; 2],
    /// Whether integers are cast to the nearest float afterwards.
    pub is_rounding: bool,
}

impl Clip {
    /// Has each number of the bounds' type between them; a NaN stays one.
    pub fn keep(self, of: Dtype, places: &mut [u8]) {
        match of {
            Dtype::Bool => {}
            Dtype::Int8 => self.each(places, |bits: u8| bits.cast_signed()),
            Dtype::Int16 => self.each(places, |bits: u16| bits.cast_signed()),
            Dtype::Int32 => self.each(places, |bits: u32| bits.cast_signed()),
            Dtype::Int64 => self.each(places, |bits: u64| bits.cast_signed()),
            Dtype::Uint8 => self.each(places, |bits: u8| bits),
            Dtype::Uint16 => self.each(places, |bits: u16| bits),
            Dtype::Uint32 => self.each(places, |bits: u32| bits),
            Dtype::Uint64 => self.each(places, |bits: u64| bits),
            Dtype::Float16 => self.each(places, f16::from_bits),
            Dtype::Bfloat16 => self.each(places, bf16::from_bits),
            Dtype::Float32 => self.each(places, f32::from_bits),
            Dtype::Float64 => self.each(places, f64::from_bits),
        }
    }

    fn each<B: Pod, T: PartialOrd>(self, places: &mut [u8], number: impl Fn(B) -> T) {
        let [low, high] = self.bounds.map(|bound| bound.and_then(lowest::<B>));
        let places: &mut [B] = bytemuck::cast_slice_mut(places);
        if let Some(low) = low {
            for place in places.iter_mut().filter(|place| number(**place) < number(low)) {
                *place = low;
            }
        }
        if let Some(high) = high {
            for place in places.iter_mut().filter(|place| number(**place) > number(high)) {
                *place = high;
            }
        }
    }
}

/// The lowest bits of a number, as many as there is room for.
fn lowest<B: Pod>(bits: u64) -> Option<B> {
    bytemuck::try_pod_read_unaligned(bits.to_le_bytes().get(..size_of::<B>())?).ok()
}

impl Shaping {
    /// The type that values would have without it; `None` if they are not converted.
    #[must_use]
    pub fn from(self) -> Option<Dtype> {
        match self {
            Self::None => None,
            Self::Cast(dtype)
            | Self::Rounded(dtype)
            | Self::Clipped(dtype, ..)
            | Self::Hashed(dtype, _)
            | Self::Coded(dtype, _) => Some(dtype),
        }
    }
}
