//! Decodes columns of lists of strings or binary values.

use crate::decode::decoder::{JaggedDecoder, JaggedRows, NULL_ROW, NestedRows};
use crate::decode::flat::byte_array::TextValues;
use crate::decode::list::pages::{LevelRange, ListPages, RowWalk};
use crate::decode::list::primitive::null_row;
use crate::decode::numbers::as_numbers;
use crate::error::Result;
use crate::format::encoding::bitmap::Bits;
use crate::format::encoding::byte_array::{MAX_EXPANDED_BYTES, too_long};
use crate::memory::vectors::room_for;
use crate::schema::nulls::Nulls;

/// A column of lists of strings or binary values, delivered as lists of lists of bytes.
pub struct TextListDecoder<'a> {
    pages: ListPages<'a>,
    nulls: Nulls,
    values: TextValues,
    /// Which strings are valid, if some are null.
    there: Bits,
}

impl<'a> TextListDecoder<'a> {
    pub fn new(pages: ListPages<'a>, nulls: Nulls, values: TextValues) -> Self {
        Self { pages, nulls, values, there: Bits::default() }
    }

    /// Appends the rows, or the rest of a row, of a range of levels.
    fn take(&mut self, stretch: &LevelRange, output: &mut JaggedRows) -> Result<()> {
        let bits = self.pages.bits();
        let elements = bits.elements.part(stretch.levels.clone()).ones();
        let NestedRows { values, ends, valid, inner: texts } = output.nested();
        let first = texts.values.len();
        texts.values.resize(first + elements * size_of::<u64>())?;
        let lengths: &mut [u64] = as_numbers(&mut texts.values.bytes_mut()[first..])?;
        room_for(ends, stretch.rows.len())?;
        room_for(valid, stretch.rows.len())?;
        room_for(&mut texts.ends, stretch.rows.len())?;
        let before = values.len();
        let can_expand = self.values.can_expand();
        let mut added = Ok(());
        let mut add = |text: &[u8], length: &mut u64| {
            if can_expand && values.len() + text.len() - before > MAX_EXPANDED_BYTES {
                added = Err(too_long(stretch.rows.len()));
            }
            if added.is_ok() {
                added = values.extend(text);
            }
            *length = text.len() as u64;
        };
        let (page, present) = (self.pages.page().bytes, bits.values.part(stretch.levels.clone()).ones());
        let mut first_null = None;
        if present == elements {
            let mut places = lengths.iter_mut();
            self.values
                .each(page, present, |text| places.next().into_iter().for_each(|place| add(text, place)))?;
        } else {
            bits.there(stretch, &mut self.there);
            first_null = self.there.all().first_zero();
            for (place, is_there) in lengths.iter_mut().zip(self.there.all().each()) {
                *place = if is_there { 0 } else { NULL_ROW };
            }
            let mut places = lengths.iter_mut().filter(|place| **place == 0);
            self.values
                .each(page, present, |text| places.next().into_iter().for_each(|place| add(text, place)))?;
        }
        added?;
        let lengths: &[u64] = as_numbers(&mut texts.values.bytes_mut()[first..])?;
        let begun = ends.len();
        let (mut passed, mut end) = (0, before);
        let count = bits.rows(stretch, |reached, is_valid| {
            let some = lengths[passed..reached].iter().map(|length| (length & !NULL_ROW) as usize);
            end += some.sum::<usize>();
            passed = reached;
            // A row that begins here ends the row before it, which may have begun in another page.
            if let (Some(last), Some(last_text)) = (ends.last_mut(), texts.ends.last_mut()) {
                (*last, *last_text) = (end, first + reached * size_of::<u64>());
            }
            ends.push(0);
            texts.ends.push(0);
            valid.push(is_valid);
        });
        if let (Some(last), Some(last_text)) = (ends.last_mut(), texts.ends.last_mut()) {
            (*last, *last_text) = (values.len(), first + count * size_of::<u64>());
        }
        if let Some(null) = valid[begun..].iter().position(|&valid| valid == 0) {
            self.nulls.bits(stretch.rows.start + null)?;
        }
        if let Some(null) = first_null.filter(|_| self.nulls == Nulls::Refused) {
            let place = first + null * size_of::<u64>();
            let continued = usize::from(self.pages.is_continued(stretch));
            let row = texts.ends[begun.saturating_sub(continued)..].partition_point(|&end| end <= place);
            return Err(null_row("a text", (stretch.rows.start + row).saturating_sub(continued)));
        }
        Ok(())
    }
}

impl JaggedDecoder for TextListDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.values, rows)
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        let mut walk = RowWalk::new(rows);
        while let Some(stretch) = self.pages.next(&mut self.values, &mut walk)? {
            self.take(&stretch, output)?;
        }
        Ok(())
    }
}
