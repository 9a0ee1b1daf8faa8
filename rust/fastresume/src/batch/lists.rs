//! Rows of jagged fields, decoded one behind another into memory that is used again.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::batch::filler::{Filler, Scratch};
use crate::batch::mending::{GroupFile, Masking};
use crate::batch::strips::StripSource;
use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::decode::survey::BadRows;
use crate::error::{Error, Result, check, locked};
use crate::format::page::reader::Buffers;

impl Filler {
    /// Appends rows of a row group, which are counted in it and ascend, to what there is of some jagged fields. Damaged ones
    /// are refused, also where the layout masks damage; others of their row group are there.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Interrupted` once `stop` is set.
    pub fn append_lists(
        &self,
        group: usize,
        spans: &[Range<usize>],
        fields: &[usize],
        output: &mut [JaggedRows],
        stop: &AtomicBool,
    ) -> Result<()> {
        let of = self.sources.group(group);
        let in_group = |error: Error| of.named(error);
        let rows = of.rows.clone();
        let masking = of.source.layout.masks_damage().then(|| Masking {
            surveys: &self.surveys,
            stop,
            group,
            rows: usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX),
            found: RefCell::default(),
        });
        let opened = self.opened(of.file, group)?;
        let file = GroupFile { file: Ok(&opened), row_group: of.index, masking: masking.as_ref() };
        let sources = StripSource::all_of(file, &of);
        let mut scratch = locked(&self.scratch).pop().unwrap_or_else(Scratch::new);
        let end_row = spans.last().map_or(0, |last| last.end as u64);
        scratch.buffers.begin_part(group, end_row, &self.pages);
        let appended = fields.iter().zip(output).try_for_each(|(&field, rows)| {
            check(stop)?;
            sources[field].append_lists(spans, rows, &mut scratch.buffers)
        });
        locked(&self.scratch).push(scratch);
        // What can't be decoded may be another file's bytes: then that is what is said.
        opened.check_unchanged().and(appended.map_err(in_group))?;
        let mut damage = masking.map(|masking| masking.found.take()).unwrap_or_default().into_iter();
        let is_among =
            |bad: &BadRows| spans.iter().any(|span| bad.rows.start < span.end && span.start < bad.rows.end);
        damage.find(is_among).map_or(Ok(()), |bad| Err(in_group(bad.cause)))
    }
}

impl StripSource<'_> {
    /// Appends rows of the row group, in ascending spans, of a jagged field's only column.
    pub fn append_lists(
        &self,
        spans: &[Range<usize>],
        output: &mut JaggedRows,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let of = self.column(0);
        let before = output.ends.len();
        let take = |mut decoder: Box<dyn JaggedDecoder + '_>| {
            // Where this is tried again.
            output.truncate(before);
            let mut row = 0;
            for span in spans {
                decoder.skip(span.start - row)?;
                decoder.read(span.len(), output)?;
                row = span.end;
            }
            Ok(())
        };
        let taken = self.file.jagged(of, self.field.marks_elements(), buffers, take);
        taken.map_err(|error| error.in_column(&of.column.name))
    }
}
