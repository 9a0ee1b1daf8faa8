//! Chooses which rows to decode where only some of them are wanted.
//!
//! A range of rows costs a decoder about as much as a hundred values. Where short ranges lie close together,
//! as in a random selection, all rows between them are decoded, and the wanted ones picked out. Where they
//! are few and far between, the decoder looks up each of them, many in one go.

use std::ops::Range;

use bytemuck::Pod;

use crate::decode::decoder::{ScalarDecoder, Target, Wanted};
use crate::error::Result;
use crate::memory::vectors::{append, push, resize};
use crate::schema::nulls::Nulls;
use crate::simd;

/// Ranges shorter than this are decoded together, if fewer rows than this lie between them.
const CLOSE_ROWS: usize = 64;

/// Where at most one in this many rows is wanted, each is looked up.
const SPARSE: usize = 16;

/// A step in which rows are looked up may begin with this many, however close they are.
const FEW_ROWS: usize = 8;

/// The most rows that are decoded to pick some of them.
const STEP_ROWS: usize = 4096;

/// The most bytes for that: wider rows are decoded one by one.
const STEP_BYTES: usize = 1 << 20;

/// What to skip, what to decode, and which decoded rows to keep: the same for all columns.
#[derive(Debug, Default)]
pub struct RowPicker {
    steps: Vec<Step>,
    /// The kept rows of all steps, counted within their step.
    kept: Vec<u32>,
    /// The row behind the last step.
    reached: usize,
}

#[derive(Debug)]
struct Step {
    /// The number of rows to skip.
    passed: usize,
    /// The rows to decode.
    rows: Range<usize>,
    /// Which entries of `kept` belong to it; empty if all its rows are kept.
    kept: Range<usize>,
}

impl Step {
    fn count(&self) -> usize {
        if self.kept.is_empty() { self.rows.len() } else { self.kept.len() }
    }

    /// Whether few of its rows are kept.
    fn is_sparse(&self) -> bool {
        self.count() * SPARSE <= self.rows.len()
    }

    /// Whether a range of `rows` rows, `gap` rows behind it, is better decoded with it.
    fn takes(&self, rows: usize, gap: usize) -> bool {
        gap < CLOSE_ROWS || (rows <= FEW_ROWS && (self.count() <= FEW_ROWS || self.is_sparse()))
    }
}

/// Memory for the rows of a step.
#[derive(Default)]
pub struct StepRows {
    values: Vec<u64>,
    valid: Vec<u8>,
}

impl RowPicker {
    /// Adds ascending ranges of rows, which lie behind those that were added before; returns their steps.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn add(&mut self, stretches: &[Range<usize>]) -> Result<Range<usize>> {
        let first = self.steps.len();
        for stretch in stretches.iter().filter(|stretch| !stretch.is_empty()) {
            let is_short = stretch.len() < CLOSE_ROWS;
            match self.steps[first..].last_mut() {
                Some(last)
                    if is_short
                        && last.rows.len() < STEP_ROWS - CLOSE_ROWS
                        && !(last.kept.is_empty() && last.rows.len() >= CLOSE_ROWS)
                        && stretch.end - last.rows.start <= STEP_ROWS
                        && last.takes(stretch.len(), stretch.start - last.rows.end) =>
                {
                    if last.kept.is_empty() {
                        last.kept = self.kept.len()..self.kept.len();
                        append(&mut self.kept, (0..).take(last.rows.len()))?;
                    }
                    last.rows.end = stretch.end;
                    let from = stretch.start - last.rows.start;
                    append(&mut self.kept, (0..).skip(from).take(stretch.len()))?;
                    last.kept.end = self.kept.len();
                }
                _ => {
                    let passed = stretch.start - self.reached;
                    push(&mut self.steps, Step { passed, rows: stretch.clone(), kept: 0..0 })?;
                }
            }
            self.reached = stretch.end;
        }
        Ok(first..self.steps.len())
    }

    /// All steps.
    pub fn steps(&self) -> Range<usize> {
        0..self.steps.len()
    }

    /// Whether unwanted rows are decoded.
    fn decodes_others(&self) -> bool {
        !self.kept.is_empty()
    }

    /// How a decoder must treat nulls: a null in an unwanted row is no error.
    pub fn nulls(&self, nulls: Nulls) -> Nulls {
        match nulls {
            Nulls::Refused if self.decodes_others() => Nulls::Masked,
            _ => nulls,
        }
    }

    /// Skips the rows of steps.
    ///
    /// # Errors
    /// Those of the decoder.
    pub fn skip(&self, steps: Range<usize>, decoder: &mut dyn ScalarDecoder) -> Result<()> {
        decoder.skip(self.steps[steps].iter().map(|step| step.passed + step.rows.len()).sum())
    }

    /// Fills the target with the values of steps. The decoder must have been made with [`RowPicker::nulls`].
    ///
    /// # Errors
    /// Those of the decoder.
    pub fn read(
        &self,
        steps: Range<usize>,
        decoder: &mut dyn ScalarDecoder,
        nulls: Nulls,
        target: Target<'_>,
        memory: &mut StepRows,
    ) -> Result<()> {
        let steps = &self.steps[steps];
        let count: usize = steps.iter().map(Step::count).sum();
        let width = target.values.len().checked_div(count).unwrap_or(0);
        let is_checked = nulls == Nulls::Refused && self.decodes_others();
        let Target { mut values, mut valid } = target;
        for step in steps {
            decoder.skip(step.passed)?;
            let marked = step.count().min(valid.len());
            let (some, rest) = std::mem::take(&mut values).split_at_mut(step.count() * width);
            let (marks, unmarked) = std::mem::take(&mut valid).split_at_mut(marked);
            (values, valid) = (rest, unmarked);
            if !step.kept.is_empty() && step.rows.len() * width > STEP_BYTES {
                self.read_each(
                    step,
                    decoder,
                    is_checked.then_some(nulls),
                    Target { values: some, valid: marks },
                )?;
            } else if !step.kept.is_empty() && step.is_sparse() {
                let kept = &self.kept[step.kept.clone()];
                resize(&mut memory.valid, if is_checked { kept.len() } else { 0 }, 0)?;
                let valid = if is_checked { &mut memory.valid } else { marks };
                decoder.pick(kept, Target { values: some, valid })?;
                let null = || memory.valid.iter().position(|&mark| mark == 0);
                if let Some(null) = is_checked.then(null).flatten() {
                    nulls.bits(step.rows.start + kept[null] as usize)?;
                }
            } else if !step.kept.is_empty() {
                self.read_some(step, decoder, width, is_checked || !marks.is_empty(), memory)?;
                let (all, kept) = (bytemuck::cast_slice(&memory.values), &self.kept[step.kept.clone()]);
                pick(all, width, kept, some);
                if !marks.is_empty() {
                    pick(&memory.valid, 1, kept, marks);
                }
                let null = || kept.iter().find(|&&row| memory.valid[row as usize] == 0);
                if let Some(&null) = is_checked.then(null).flatten() {
                    nulls.bits(step.rows.start + null as usize)?;
                }
            } else if is_checked {
                for (part, some) in some.chunks_mut(STEP_ROWS * width).enumerate() {
                    resize(&mut memory.valid, some.len() / width, 0)?;
                    decoder.read(Target { values: some, valid: &mut memory.valid })?;
                    if let Some(null) = memory.valid.iter().position(|&mark| mark == 0) {
                        nulls.bits(step.rows.start + part * STEP_ROWS + null)?;
                    }
                }
            } else {
                decoder.read(Target { values: some, valid: marks })?;
            }
        }
        Ok(())
    }

    /// Fills the target with the wanted rows of a step, one by one; a null is an error if `refused`.
    fn read_each(
        &self,
        step: &Step,
        decoder: &mut dyn ScalarDecoder,
        refused: Option<Nulls>,
        target: Target<'_>,
    ) -> Result<()> {
        let (Target { values, valid }, kept) = (target, &self.kept[step.kept.clone()]);
        let width = values.len() / kept.len();
        let mut row = 0;
        for (index, (&kept, values)) in kept.iter().zip(values.chunks_mut(width)).enumerate() {
            decoder.skip(kept as usize - row)?;
            row = kept as usize + 1;
            let mut mark = [1];
            decoder.read(Target { values, valid: &mut mark })?;
            if let Some(nulls) = refused.filter(|_| mark == [0]) {
                nulls.bits(step.rows.start + kept as usize)?;
            }
            if let Some(place) = valid.get_mut(index) {
                *place = mark[0];
            }
        }
        Ok(())
    }

    /// Decodes the rows of a step into the memory, each at its place; pages without a wanted row are skipped.
    fn read_some(
        &self,
        step: &Step,
        decoder: &mut dyn ScalarDecoder,
        width: usize,
        has_marks: bool,
        memory: &mut StepRows,
    ) -> Result<()> {
        let rows = step.rows.len();
        resize(&mut memory.values, (rows * width).div_ceil(8), 0)?;
        resize(&mut memory.valid, if has_marks { rows } else { 0 }, 0)?;
        let values: &mut [u8] = bytemuck::cast_slice_mut(&mut memory.values);
        let mut kept = &self.kept[step.kept.clone()];
        let mut row = 0;
        while let Some(&next) = kept.first() {
            decoder.skip(next as usize - row)?;
            row = next as usize;
            let end = rows.min(row + decoder.page_rows()?);
            let valid = if has_marks { &mut memory.valid[row..end] } else { &mut [][..] };
            let (wanted, later) = kept.split_at(kept.partition_point(|&kept| (kept as usize) < end));
            let target = Target { values: &mut values[row * width..end * width], valid };
            decoder.read_among(target, Wanted { rows: wanted, first: row })?;
            kept = later;
            row = end;
        }
        Ok(())
    }
}

/// Copies the kept values; a value has `width` bytes.
fn pick(all: &[u8], width: usize, kept: &[u32], output: &mut [u8]) {
    fn numbers<W: Pod>(all: &[u8], kept: &[u32], output: &mut [u8]) {
        let whole = all.len() / size_of::<W>() * size_of::<W>();
        // Kept rows lie within their step.
        simd::gather::<W>(bytemuck::cast_slice(&all[..whole]), kept, bytemuck::cast_slice_mut(output));
    }
    match width {
        1 => numbers::<u8>(all, kept, output),
        2 => numbers::<u16>(all, kept, output),
        4 => numbers::<u32>(all, kept, output),
        8 => numbers::<u64>(all, kept, output),
        _ => {
            for (place, &row) in output.chunks_exact_mut(width).zip(kept) {
                place.copy_from_slice(&all[row as usize * width..][..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const PAGE_ROWS: usize = 10;

    /// The numbers of rows; every seventh row is null.
    struct NumberedRows(usize, Nulls);

    impl ScalarDecoder for NumberedRows {
        fn skip(&mut self, rows: usize) -> Result<()> {
            self.0 += rows;
            Ok(())
        }

        fn page_rows(&mut self) -> Result<usize> {
            Ok(PAGE_ROWS - self.0 % PAGE_ROWS)
        }

        fn read(&mut self, target: Target<'_>) -> Result<()> {
            let values: &mut [u32] = bytemuck::cast_slice_mut(target.values);
            let mut marks = target.valid.iter_mut();
            for value in values {
                *value = u32::try_from(self.0).unwrap();
                let is_null = self.0 % 7 == 3;
                if is_null {
                    self.1.bits(self.0)?;
                }
                if let Some(mark) = marks.next() {
                    *mark = u8::from(!is_null);
                }
                self.0 += 1;
            }
            Ok(())
        }
    }

    fn read(groups: &[&[Range<usize>]], nulls: Nulls) -> Result<(Vec<u32>, Vec<u8>)> {
        let mut sieve = RowPicker::default();
        let steps: Vec<_> = groups.iter().map(|stretches| sieve.add(stretches).unwrap()).collect();
        let mut decoder = NumberedRows(0, sieve.nulls(nulls));
        let (mut found, mut marked) = (Vec::new(), Vec::new());
        for (steps, stretches) in steps.into_iter().zip(groups) {
            let count = stretches.iter().map(ExactSizeIterator::len).sum();
            let (mut values, mut valid) = (vec![0_u32; count], vec![9; count]);
            if nulls == Nulls::Refused {
                valid.clear();
            }
            let target = Target { values: bytemuck::cast_slice_mut(&mut values), valid: &mut valid };
            sieve.read(steps, &mut decoder, nulls, target, &mut StepRows::default())?;
            found.extend(values);
            marked.extend(valid);
        }
        Ok((found, marked))
    }

    fn groups() -> Vec<Vec<Range<usize>>> {
        let short = |from: usize, by: usize, rows: usize| -> Vec<_> {
            (0..200).map(|index| from + index * by..from + index * by + rows).collect()
        };
        vec![
            vec![],
            vec![5..5, 6..10],
            short(100, 5, 2),
            vec![2000..9000, 9010..9011, 9012..9013, 9100..9101],
            short(20_000, 63, 30),
            short(50_000, 100, 7),
        ]
    }

    #[test]
    fn every_wanted_row_is_read_once_and_no_other() {
        let groups = groups();
        let parts: Vec<&[Range<usize>]> = groups.iter().map(Vec::as_slice).collect();
        let wanted: Vec<u32> =
            groups.iter().flatten().cloned().flatten().map(|row| u32::try_from(row).unwrap()).collect();
        let (found, marked) = read(&parts, Nulls::Masked).unwrap();
        assert_eq!(found, wanted);
        assert!(marked.iter().zip(&wanted).all(|(&mark, row)| mark == u8::from(row % 7 != 3)));
    }

    #[test]
    fn rows_too_wide_to_pick_from_are_read_one_by_one() {
        let mut sieve = RowPicker::default();
        let steps = sieve.add(&[7..9, 11..12, 20..21]).unwrap();
        let width = STEP_BYTES / 4;
        let mut values = vec![0_u64; 4 * width / 8];
        let mut valid = [9; 4];
        let target = Target { values: bytemuck::cast_slice_mut(&mut values), valid: &mut valid };
        sieve
            .read(steps.clone(), &mut Wide(0, width), Nulls::Masked, target, &mut StepRows::default())
            .unwrap();
        let rows: Vec<u8> = bytemuck::cast_slice(&values).chunks(width).map(|row| row[width - 1]).collect();
        assert_eq!((rows, valid), (vec![7, 8, 11, 20], [1, 1, 1, 0]));
        let target = Target { values: bytemuck::cast_slice_mut(&mut values), valid: &mut [] };
        let refused =
            sieve.read(steps, &mut Wide(0, width), Nulls::Refused, target, &mut StepRows::default());
        assert!(refused.unwrap_err().to_string().contains("row 20 "));
    }

    /// Rows of some width, whose bytes are all the row's number; row 20 is null.
    struct Wide(usize, usize);

    impl ScalarDecoder for Wide {
        fn skip(&mut self, rows: usize) -> Result<()> {
            self.0 += rows;
            Ok(())
        }

        fn page_rows(&mut self) -> Result<usize> {
            Ok(usize::MAX - self.0)
        }

        fn read(&mut self, target: Target<'_>) -> Result<()> {
            for (index, row) in target.values.chunks_mut(self.1).enumerate() {
                row.fill(u8::try_from(self.0 + index).unwrap());
                if let Some(mark) = target.valid.get_mut(index) {
                    *mark = u8::from(self.0 + index != 20);
                }
            }
            self.0 += target.values.len() / self.1;
            Ok(())
        }
    }

    #[test]
    fn a_null_is_an_error_where_its_row_is_wanted_and_nowhere_else() {
        let without: Vec<Range<usize>> =
            (0..3000).filter(|row| row % 7 != 3).map(|row| row..row + 1).collect();
        assert_eq!(read(&[&without], Nulls::Refused).unwrap().0.len(), without.len());
        for null in [3, 1508, 2999 / 7 * 7 + 3 - 7] {
            let null = null / 7 * 7 + 3;
            let mut with = without.clone();
            with.push(null..null + 1);
            with.sort_by_key(|row| row.start);
            let error = read(&[&with], Nulls::Refused).unwrap_err();
            assert!(
                matches!(&error, Error::Data { .. }) && error.to_string().contains(&format!("row {null} "))
            );
            let mut long = without[..5].to_vec();
            long.push(null + 70..null + 400);
            let error = read(&[&long], Nulls::Refused).unwrap_err();
            assert!(error.to_string().contains(&format!("row {} ", null + 70)), "{error}");
        }
    }
}
