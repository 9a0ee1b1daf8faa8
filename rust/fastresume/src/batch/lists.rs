//! Rows of jagged fields, decoded one behind another into memory that is used again.

use std::ops::Range;

use crate::batch::strips::StripSource;
use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::error::Result;
use crate::format::page::reader::Buffers;

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
