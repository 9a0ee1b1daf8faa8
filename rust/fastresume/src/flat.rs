//! Flat columns of numbers, decoded by our own hands: levels and values straight out of the pages.
//!
//! What does not occur in files of today, or holds nulls, is left to the decoder of the `parquet` crate.

use bytemuck::Pod;
use parquet::basic::Encoding;

use crate::column::{ColumnDecoder, Target};
use crate::error::{Error, Result};
use crate::hybrid::{CHUNK, Hybrid, Next};
use crate::page::{PageStart, Pages};
use crate::values::{Number, Values};

/// Values that are converted or spread out are decoded so many at a time.
const STEP: usize = 1024;

/// Makes the decoder that takes over where ours ends, from the first row of the chunk on.
pub type Fallback = Box<dyn Fn() -> Result<Box<dyn ColumnDecoder>>>;

/// A column whose pages hold `P`, delivered as `V`.
pub struct FlatDecoder<P, V, F> {
    pages: Pages,
    is_optional: bool,
    /// Whether `convert` changes nothing.
    is_same: bool,
    convert: F,
    dictionary: Vec<P>,
    values: Option<Values<P>>,
    /// Rows of the present page that are left.
    left: usize,
    /// Rows of the row group that were read or skipped.
    row: usize,
    scratch: Vec<P>,
    fallback: Fallback,
    taken_over: Option<Box<dyn ColumnDecoder>>,
    _delivered: std::marker::PhantomData<V>,
}

impl<P: Number, V: Pod, F: Fn(P) -> Option<V>> FlatDecoder<P, V, F> {
    pub fn new(pages: Pages, is_optional: bool, is_same: bool, convert: F, fallback: Fallback) -> Self {
        Self {
            pages,
            is_optional,
            is_same,
            convert,
            dictionary: Vec::new(),
            values: None,
            left: 0,
            row: 0,
            scratch: Vec::new(),
            fallback,
            taken_over: None,
            _delivered: std::marker::PhantomData,
        }
    }

    fn too_short(&self) -> Error {
        Error::data(format!("the column chunk ends after {} rows", self.row))
    }

    /// Opens the next page that holds rows; false if another decoder has to go on.
    fn open_page(&mut self) -> Result<bool> {
        loop {
            let Some(page) = self.pages.next_data()? else { return Err(self.too_short()) };
            if page.num_values == 0 {
                continue;
            }
            let Some(values) = self.open_values(&page)? else {
                let mut other = (self.fallback)()?;
                other.skip(self.row)?;
                self.taken_over = Some(other);
                return Ok(false);
            };
            self.values = Some(values);
            self.left = page.num_values;
            return Ok(true);
        }
    }

    /// The values of a page, if its encodings are ours and none is null.
    fn open_values(&mut self, page: &PageStart) -> Result<Option<Values<P>>> {
        if page.num_nulls > 0 {
            return Ok(None);
        }
        if let Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY = page.encoding
            && self.dictionary.is_empty()
        {
            let Some((bytes, count)) = self.pages.dictionary()? else { return Ok(None) };
            let mut values = vec![P::default(); count];
            let length = size_of_val(values.as_slice());
            let source = bytes.get(..length).ok_or_else(|| {
                Error::data(format!("the dictionary claims {count} values and has {} bytes", bytes.len()))
            })?;
            bytemuck::cast_slice_mut(&mut values).copy_from_slice(source);
            self.dictionary = values;
        }
        let bytes = self.pages.page();
        let mut start = page.levels_end;
        if self.is_optional {
            let (first, end) = match page.definition_bytes {
                Some(length) => (start, start + length),
                None if page.definition_encoding == Encoding::RLE => {
                    let length = bytes.get(start..start + 4).and_then(|length| length.try_into().ok());
                    let length = length.map_or(usize::MAX, |length| u32::from_le_bytes(length) as usize);
                    (start + 4, (start + 4).saturating_add(length))
                }
                None => return Ok(None),
            };
            let levels = bytes.get(first..end).ok_or_else(|| {
                Error::data(format!("a page's levels end at byte {end}, the page has {}", bytes.len()))
            })?;
            if !are_all_defined(levels, page.num_values)? {
                return Ok(None);
            }
            start = end;
        }
        Values::new(page.encoding, bytes, start, page.num_values)
    }

    fn read_page(&mut self, target: &mut Target<'_>, done: usize, rows: usize) -> Result<()> {
        let Some(values) = &mut self.values else { return Ok(()) };
        let bytes = self.pages.page();
        let misfit = |cause| Error::Argument(format!("a slot does not fit its type: {cause}"));
        if self.is_same && target.step == 1 {
            let slots: &mut [P] = bytemuck::try_cast_slice_mut(target.memory).map_err(misfit)?;
            let first = target.first + done;
            let slots = slots.get_mut(first..first + rows).unwrap_or_default();
            return values.read(bytes, &self.dictionary, slots);
        }
        self.scratch.resize(STEP, P::default());
        let slots: &mut [V] = bytemuck::try_cast_slice_mut(target.memory).map_err(misfit)?;
        let step = target.step.max(1);
        let mut read = 0;
        while read < rows {
            let some = STEP.min(rows - read);
            let scratch = &mut self.scratch[..some];
            values.read(bytes, &self.dictionary, scratch)?;
            let room = slots.get_mut(target.first + (done + read) * step..).unwrap_or_default();
            for (index, (slot, &value)) in room.iter_mut().step_by(step).zip(scratch.iter()).enumerate() {
                let Some(value) = (self.convert)(value) else {
                    return Err(Error::data(format!(
                        "row {} of the row group holds {value:?}, which does not fit the column's type",
                        self.row + read + index
                    )));
                };
                *slot = value;
            }
            read += some;
        }
        Ok(())
    }
}

impl<P: Number, V: Pod, F: Fn(P) -> Option<V>> ColumnDecoder for FlatDecoder<P, V, F> {
    fn skip(&mut self, mut rows: usize) -> Result<()> {
        if let Some(other) = &mut self.taken_over {
            return other.skip(rows);
        }
        while rows > 0 {
            if self.left == 0 {
                let passed = self.pages.pass_rows(rows)?;
                self.row += passed;
                rows -= passed;
                if rows == 0 {
                    break;
                }
                if !self.open_page()? {
                    return self.skip(rows);
                }
            }
            let some = rows.min(self.left);
            if let Some(values) = &mut self.values {
                values.skip(self.pages.page(), some)?;
            }
            self.left -= some;
            self.row += some;
            rows -= some;
        }
        Ok(())
    }

    fn read(&mut self, mut target: Target<'_>) -> Result<()> {
        let mut done = 0;
        while done < target.rows {
            if let Some(other) = &mut self.taken_over {
                let Target { first, step, rows, .. } = target;
                let memory = &mut *target.memory;
                return other.read(Target { memory, first: first + done * step, step, rows: rows - done });
            }
            if self.left == 0 && !self.open_page()? {
                continue;
            }
            let rows = self.left.min(target.rows - done);
            self.read_page(&mut target, done, rows)?;
            self.left -= rows;
            self.row += rows;
            done += rows;
        }
        Ok(())
    }
}

/// Whether the first `count` definition levels of a flat optional column are all 1.
fn are_all_defined(levels: &[u8], count: usize) -> Result<bool> {
    let mut hybrid = Hybrid::new(0, 1)?;
    let mut buffer = [0; CHUNK];
    let mut read = 0;
    while read < count {
        let (are_defined, some) = match hybrid.next(levels, count - read, &mut buffer)? {
            Next::Repeated(level, some) => (level == 1, some),
            Next::Unpacked(some) => (buffer[..some].iter().all(|&level| level == 1), some),
        };
        if !are_defined {
            return Ok(false);
        }
        read += some;
    }
    Ok(true)
}
