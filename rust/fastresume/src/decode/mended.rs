//! Decoders of a column some of whose rows can't be decoded: these are zeros, or empty.

use std::ops::Range;

use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target, Wanted, mark_all};
use crate::error::Result;

/// The decoders of the rows between those that can't be decoded.
pub struct Mended<D> {
    /// Ascending rows, how many of the row group's were passed to get there, and their decoder.
    good: Vec<(Range<usize>, usize, D)>,
    /// Which of them comes next, and the row that comes next.
    at: usize,
    row: usize,
    /// Bytes of a value.
    width: usize,
    /// How other rows are marked, where nulls are.
    mark: u8,
}

impl<D> Mended<D> {
    /// From decoders of ascending ranges of rows, each of which begins with the first row of the row group.
    pub fn new(good: impl IntoIterator<Item = (Range<usize>, D)>, width: usize, mark: u8) -> Self {
        let good = good.into_iter().map(|(rows, decoder)| (rows, 0, decoder)).collect();
        Self { good, at: 0, row: 0, width, mark }
    }

    /// The decoder of the next row, if it can be decoded, and how many rows are like it. `skip` moves the decoder to it.
    fn next(&mut self, skip: impl FnOnce(&mut D, usize) -> Result<()>) -> Result<(Option<&mut D>, usize)> {
        while self.good.get(self.at).is_some_and(|(rows, ..)| rows.end <= self.row) {
            self.at += 1;
        }
        let row = self.row;
        match self.good.get_mut(self.at) {
            None => Ok((None, usize::MAX - row)),
            Some((rows, ..)) if rows.start > row => Ok((None, rows.start - row)),
            Some((rows, passed, decoder)) => {
                skip(decoder, row - *passed)?;
                *passed = row;
                Ok((Some(decoder), rows.end - row))
            }
        }
    }

    /// Notes that rows were passed, which the next decoder decoded if there is one.
    fn pass(&mut self, rows: usize) {
        self.row += rows;
        if let Some((good, passed, _)) = self.good.get_mut(self.at).filter(|(good, ..)| good.start < self.row)
        {
            *passed = self.row.max(good.start);
        }
    }
}

type Scalars<'a> = Box<dyn ScalarDecoder + 'a>;

impl ScalarDecoder for Mended<Scalars<'_>> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        // The decoder is moved when a row is wanted.
        self.row += rows;
        Ok(())
    }

    fn page_rows(&mut self) -> Result<usize> {
        match self.next(|decoder, rows| decoder.skip(rows))? {
            (Some(decoder), count) => Ok(decoder.page_rows()?.min(count)),
            (None, count) => Ok(count),
        }
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let Target { mut values, mut valid } = target;
        let (width, mark) = (self.width, self.mark);
        while !values.is_empty() {
            let wanted = values.len() / width;
            let (decoder, count) = self.next(|decoder, rows| decoder.skip(rows))?;
            let some = wanted.min(count);
            let (here, behind) = std::mem::take(&mut values).split_at_mut(some * width);
            let marked = some.min(valid.len());
            let (marks, unmarked) = std::mem::take(&mut valid).split_at_mut(marked);
            if let Some(decoder) = decoder {
                decoder.read(Target { values: here, valid: marks })?;
            } else {
                here.fill(0);
                mark_all(marks, mark);
            }
            self.pass(some);
            (values, valid) = (behind, unmarked);
        }
        Ok(())
    }

    fn read_among(&mut self, target: Target<'_>, wanted: Wanted<'_>) -> Result<()> {
        let rows = target.values.len() / self.width;
        // The rows of one page are all alike.
        if let (Some(decoder), _) = self.next(|decoder, rows| decoder.skip(rows))? {
            decoder.read_among(target, wanted)?;
            self.pass(rows);
            return Ok(());
        }
        self.read(target)
    }
}

type Jagged<'a> = Box<dyn JaggedDecoder + 'a>;

impl JaggedDecoder for Mended<Jagged<'_>> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        Ok(())
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        let mut left = rows;
        while left > 0 {
            let mark = self.mark;
            let (decoder, count) = self.next(|decoder, rows| decoder.skip(rows))?;
            let some = left.min(count);
            if let Some(decoder) = decoder {
                decoder.read(some, output)?;
            } else {
                let (end, rows) = (output.values.len(), output.ends.len() + some);
                output.ends.resize(rows, end);
                output.valid.resize(rows, mark);
            }
            self.pass(some);
            left -= some;
        }
        Ok(())
    }
}
