//! The inner loops of decoding, for any processor and for AVX2. Beside them, mapped files and blocks that grow are unsafe.
//!
//! Each loop is compiled twice: for any processor, and for one with AVX2. The choice is made at run time.
//!
//! Unsafe code does three things here. It calls what was compiled for AVX2. It looks up indices, or writes to places, which
//! are compared with the table's length all at once, or are below it by construction. And it prefetches memory.
//!
//! Most loops have one source for both compilations. Some have another one for AVX2, because the compiler
//! does not use registers for them by itself: transposing squares of numbers, spreading values among nulls,
//! writing bits as bytes, and unpacking integers of a few bits.
#![allow(clippy::inline_always, reason = "what is not inlined is not compiled for AVX2")]

mod dispatch;
mod cache_lines;
mod max;
mod unpack;
mod gather;
mod scatter;
mod feistel;
mod snappy;
mod expand;
mod tiles;
mod transpose;

pub use self::cache_lines::{fetch_bytes, fetch_places};
pub use self::expand::{EXPAND_SPARE, expand, write_bits};
pub use self::feistel::{FIRST_FACTOR, FeistelRounds, ROUNDS, SECOND_FACTOR, below};
pub use self::gather::{gather, look_up_groups};
#[cfg(any(test, feature = "fuzzing"))]
pub use self::gather::{gather_groups, load_groups};
pub use self::max::raise;
pub use self::scatter::{BoundedMoves, Move, deal, place, place_raised, scatter, scatter_raised};
pub use self::snappy::{decompress_numbers, literal_length};
pub use self::transpose::{
    split_2_bytes, split_4_bytes, split_8_bytes, split_plain, turn_1_byte, turn_2_bytes, turn_4_bytes,
    turn_8_bytes, turn_lowered, turn_raised,
};
pub use self::unpack::unpack_groups;
