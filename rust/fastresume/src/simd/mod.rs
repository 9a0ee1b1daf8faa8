//! Inner loops, for any processor and for AVX2; the core's only unsafe code.
//!
//! The inner loops of decoding, each compiled twice: for any processor, and for one with AVX2. The choice is made at run time.
//!
//! This is the one module with unsafe code: the calls of what was compiled for such processors, lookups whose indices are
//! compared with the length of the table all at once, or are below it by what they are made of, and asking for memory ahead. What is compiled for any processor is the
//! same source, but for squares of numbers, values that nulls lie between, marks and integers of a few bits: the compiler
//! does not turn, spread and unpack these in registers by itself.
#![allow(clippy::inline_always, reason = "what is not inlined is not compiled for AVX2")]

mod dispatch;
mod prefetch;
mod max;
mod unpack;
mod gather;
mod scatter;
mod feistel;
mod snappy;
mod expand;
mod tiles;
mod transpose;

pub use self::expand::{EXPAND_SPARE, expand, write_bits};
pub use self::feistel::{FIRST_FACTOR, ROUNDS, Rounds, SECOND_FACTOR, below};
pub use self::gather::{gather, look_up_groups};
#[cfg(any(test, feature = "fuzzing"))]
pub use self::gather::{gather_groups, load_groups};
pub use self::max::raise;
pub use self::prefetch::{fetch_bytes, fetch_places};
pub use self::scatter::{Move, deal, scatter, scatter_raised};
pub use self::snappy::{decompress_numbers, literal_length};
pub use self::transpose::{
    split_2_bytes, split_4_bytes, split_8_bytes, split_plain, turn_1_byte, turn_2_bytes, turn_4_bytes,
    turn_8_bytes, turn_lowered, turn_raised,
};
pub use self::unpack::unpack_groups;
