//! The elementwise maximum of rows of numbers.

use std::cell::Cell;

use super::dispatch::chosen;

/// The number of rows that are read at once, so that the output is read and written that much less often.
const ROWS_AT_ONCE: usize = 8;

chosen! {
    /// Raises each number to the maximum at its place over some rows, none of which is shorter.
    pub fn raise(numbers: &mut [i64], rows: &[&[Cell<i64>]]) -> () = raise_inline, for AVX2 raise_inline
}

#[inline(always)]
fn raise_inline(numbers: &mut [i64], rows: &[&[Cell<i64>]]) {
    let (chunks, rest) = rows.as_chunks::<ROWS_AT_ONCE>();
    for &rows in chunks {
        raise_at_once(numbers, rows);
    }
    for &row in rest {
        raise_at_once(numbers, [row]);
    }
}

#[inline(always)]
fn raise_at_once<const ROWS: usize>(numbers: &mut [i64], rows: [&[Cell<i64>]; ROWS]) {
    let rows = rows.map(|row| &row[..numbers.len()]);
    for (place, number) in numbers.iter_mut().enumerate() {
        *number = rows.iter().fold(*number, |greatest, row| greatest.max(row[place].get()));
    }
}
