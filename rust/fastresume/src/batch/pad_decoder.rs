//! Decodes jagged rows, and pads them to one length.

use std::ops::Range;

use bytemuck::Pod;

use crate::batch::routes::{Route, Routes, hand_out};
use crate::batch::slots::interleave::{Columns, Rows};
use crate::batch::slots::sorter::Sorter;
use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::decode::numbers::{as_numbers, narrowed};
use crate::error::{Error, Result, locked};
use crate::memory::pool::Memory;
use crate::projection::padding::{End, Padding};

/// Rows are decoded in steps of about this many bytes, so that they are in the cache when they are copied.
const STEP_BYTES: usize = 1 << 16;

/// The most rows of one step.
const STEP_ROWS: usize = 4096;

/// Lengths are 64-bit integers.
const LENGTH_BYTES: usize = size_of::<u64>();

/// Decodes a jagged column, some rows at a time.
pub struct PadDecoder<'a, 'm> {
    decoder: Box<dyn JaggedDecoder + 'a>,
    padding: Padding,
    /// Bytes of a number.
    width: usize,
    /// Whether the field behind it has the lengths.
    has_lengths: bool,
    /// The rows that were decoded last.
    rows: &'m mut JaggedRows,
    /// The first of them, counted within the row group.
    first: usize,
    /// The number of rows that were passed.
    row: usize,
    /// What a row is expected to take: the bytes and rows that were decoded so far.
    expected: (usize, usize),
}

impl<'a, 'm> PadDecoder<'a, 'm> {
    /// A decoder of numbers of `width` bytes, whose rows have lengths to be noted or not. Rows have `row_bytes` on average, as the footer says.
    pub fn new(
        decoder: Box<dyn JaggedDecoder + 'a>,
        padding: Padding,
        (width, has_lengths): (usize, bool),
        row_bytes: usize,
        rows: &'m mut JaggedRows,
    ) -> Self {
        rows.clear();
        Self { decoder, padding, width, has_lengths, rows, first: 0, row: 0, expected: (row_bytes, 1) }
    }

    /// Decodes rows to a field of their batches, with its mask if it has one, and their lengths to the field
    /// behind it. `memory` is for the values, lengths and masks of scattered rows.
    ///
    /// # Errors
    /// Those of the decoder; `Data` for a row that is too long; `Argument` if there is not so much memory.
    pub fn fill(
        &mut self,
        shares: &Routes<'_>,
        (place, lengths_place, is_masked): (usize, usize, bool),
        memory: [&mut Memory; 3],
    ) -> Result<()> {
        let row_bytes = self.padding.numbers().saturating_mul(self.width);
        if shares.are_runs() {
            for (share, span) in shares.each.iter().zip(&shares.spans) {
                let Route { slots: Some(slots), rows: Rows::Run { to, .. } } = *share else { continue };
                self.each(span.clone(), |decoder, done, some| {
                    let mut slots = locked(slots);
                    let part = |bytes: usize| (to + done) * bytes..(to + done + some) * bytes;
                    decoder.place(&mut slots.scalar((place, false))[part(row_bytes)])?;
                    if decoder.has_lengths {
                        let lengths = &mut slots.scalar((lengths_place, false))[part(LENGTH_BYTES)];
                        decoder.place_lengths(lengths)?;
                    }
                    if is_masked {
                        slots.scalar((place, true))[part(1)].copy_from_slice(&decoder.rows.valid);
                    }
                    Ok(())
                })?;
            }
            return Ok(());
        }
        let rows = shares.spans.iter().map(ExactSizeIterator::len).sum::<usize>();
        let [values, lengths, valid] = memory;
        self.read_all(&shares.spans, [&mut *values, &mut *lengths, &mut *valid])?;
        let given = |field, memory: &Memory, width| {
            let columns = Columns { bytes: memory.bytes(), width, count: 1, stride: rows, floors: None };
            hand_out(&shares.each, shares.numbers, field, columns, &mut Sorter::lent())
        };
        given((place, false), values, row_bytes)?;
        if self.has_lengths {
            given((lengths_place, false), lengths, LENGTH_BYTES)?;
        }
        if is_masked {
            given((place, true), valid, 1)?;
        }
        Ok(())
    }

    /// Decodes rows to values, lengths and masks, one behind another.
    ///
    /// # Errors
    /// As for `fill`.
    pub fn read_all(
        &mut self,
        spans: &[Range<usize>],
        [values, lengths, valid]: [&mut Memory; 3],
    ) -> Result<()> {
        let row_bytes = self.padding.numbers().saturating_mul(self.width);
        let rows = spans.iter().map(ExactSizeIterator::len).sum::<usize>();
        values.resize(rows.saturating_mul(row_bytes))?;
        lengths.resize(rows.saturating_mul(LENGTH_BYTES))?;
        valid.resize(rows)?;
        let mut first = 0;
        for span in spans {
            self.each(span.clone(), |decoder, done, some| {
                let part = |bytes: usize| (first + done) * bytes..(first + done + some) * bytes;
                decoder.place(&mut values.bytes_mut()[part(row_bytes)])?;
                if decoder.has_lengths {
                    decoder.place_lengths(&mut lengths.bytes_mut()[part(LENGTH_BYTES)])?;
                }
                valid.bytes_mut()[part(1)].copy_from_slice(&decoder.rows.valid);
                Ok(())
            })?;
            first += span.len();
        }
        Ok(())
    }

    /// Decodes rows in steps. Calls `take` for each step with the number of rows before it, and its own.
    fn each(
        &mut self,
        rows: Range<usize>,
        mut take: impl FnMut(&Self, usize, usize) -> Result<()>,
    ) -> Result<()> {
        self.decoder.skip(rows.start - self.row)?;
        self.row = rows.start;
        while self.row < rows.end {
            let done = self.row - rows.start;
            let some = self.decode(rows.end - self.row)?;
            take(self, done, some)?;
        }
        Ok(())
    }

    /// Decodes some of the next `rows` rows (not 0). Returns how many: at least one.
    fn decode(&mut self, rows: usize) -> Result<usize> {
        let (bytes, of) = self.expected;
        let mean = bytes.div_ceil(of).max(1);
        let some = rows.min((STEP_BYTES / mean).clamp(1, STEP_ROWS));
        self.rows.clear();
        self.decoder.read(some, self.rows)?;
        self.first = self.row;
        self.row += some;
        self.expected = (bytes.saturating_add(self.rows.values.len()), of + some);
        Ok(some)
    }

    /// Writes the rows that were decoded last, each padded.
    fn place(&self, values: &mut [u8]) -> Result<()> {
        match self.width {
            1 => self.place_numbers::<u8>(values),
            2 => self.place_numbers::<u16>(values),
            4 => self.place_numbers::<u32>(values),
            _ => self.place_numbers::<u64>(values),
        }
    }

    fn place_numbers<V: Pod>(&self, values: &mut [u8]) -> Result<()> {
        let Padding { bits, at, kept, .. } = self.padding;
        let size = self.padding.numbers();
        let (source, places): (&[V], &mut [V]) =
            (bytemuck::cast_slice(self.rows.values.bytes()), as_numbers(values)?);
        let empty: V = narrowed(bits);
        let mut start = 0;
        for (place, end) in places.chunks_exact_mut(size).zip(&self.rows.ends) {
            let end = end / size_of::<V>();
            let mut row = &source[start..end];
            start = end;
            if row.len() > size {
                row = match kept {
                    None => return Err(self.too_long()),
                    Some(End::Head) => &row[..size],
                    Some(End::Tail) => &row[row.len() - size..],
                };
            }
            let (there, left) = match at {
                End::Tail => place.split_at_mut(row.len()),
                End::Head => {
                    let (left, there) = place.split_at_mut(size - row.len());
                    (there, left)
                }
            };
            there.copy_from_slice(row);
            left.fill(empty);
        }
        Ok(())
    }

    /// Writes the length of each of these rows: at most that of a padded row.
    fn place_lengths(&self, lengths: &mut [u8]) -> Result<()> {
        let lengths: &mut [u64] = as_numbers(lengths)?;
        let mut start = 0;
        for (place, &end) in lengths.iter_mut().zip(&self.rows.ends) {
            *place = ((end - start) / self.element_bytes()).min(self.padding.size) as u64;
            start = end;
        }
        Ok(())
    }

    fn element_bytes(&self) -> usize {
        self.width * self.padding.of
    }

    /// The error for the first row that is too long.
    fn too_long(&self) -> Error {
        let length = |row: usize| self.rows.bytes_of(row).len() / self.element_bytes();
        let size = self.padding.size;
        let row = (0..self.rows.ends.len()).find(|&row| length(row) > size).unwrap_or(0);
        Error::refused(format!(
            "row {} of the row group has {} elements, pad has room for {size}; .pad({size}, truncate=\"head\") keeps its \
             first ones, \"tail\" its last",
            self.first + row,
            length(row)
        ))
    }
}
