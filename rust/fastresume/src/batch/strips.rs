//! Decodes columns of one width side by side, in strips of rows.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::routes::{RouteParts, StripSplit};
use crate::batch::slots::pending::{LEAST_LOWERED, LOWERED_BYTES, Strip};
use crate::batch::sources::GroupOf;
use crate::batch::surveys::{FieldColumn, GroupFile};
use crate::decode::decoder::{ScalarDecoder, Target};
use crate::decode::row_picker::StepRows;
use crate::error::{Error, Result, check};
use crate::format::page::reader::Buffers;
use crate::memory::pool::Memory;
use crate::projection::field::Field;
use crate::schema::columns::Column;

/// A field of one row group, open for reading.
pub struct StripSource<'a> {
    pub file: GroupFile<'a>,
    /// Its columns in the file.
    pub columns: Vec<&'a Column>,
    /// Its index in the layout of its source.
    index: usize,
    /// Where it stands in a batch.
    pub place: usize,
    /// Where its lengths stand in a batch, if it has them.
    pub lengths_place: usize,
    pub field: &'a Field,
    /// Mean bytes of a row, if it is jagged or padded, as near as footers tell.
    pub row_bytes: usize,
}

/// The bytes of a number, and the numbers of columns and of masks, of fields of one width.
fn shape(sources: &[&StripSource<'_>]) -> (usize, usize, usize) {
    let width = sources.first().map_or(0, |first| first.field.element_bytes());
    let counts = sources.iter().map(|source| (source.columns.len(), source.field.mask_bytes()));
    counts.fold((width, 0, 0), |(width, columns, masks), (more, masked)| {
        (width, columns + more, masks + masked)
    })
}

/// Decodes the columns of fields, one after another, to strips of rows in memory from the pool. 8-byte
/// integers that lie near each other in all columns, by the footers' bounds, are decoded to 4-byte
/// differences. These are half as much to write and to read.
pub fn decode_together(
    sources: &[&StripSource<'_>],
    parts: &RouteParts<'_>,
    cuts: &[StripSplit],
    mut memory: impl FnMut() -> [Memory; 2],
    (buffers, rows): (&mut Buffers, &mut StepRows),
    stop: &AtomicBool,
) -> Result<Vec<Strip>> {
    let mut decoded = |floors: Option<Arc<[u64]>>| {
        let whole = cuts.iter().map(|cut| cut.rows.len()).max().unwrap_or(0);
        let strip =
            |cut: &StripSplit| Strip::new((cut.rows.len(), whole), shape(sources), floors.clone(), memory());
        let mut strips = cuts.iter().map(strip).collect::<Result<Vec<Strip>>>()?;
        decode_columns(sources, parts, (cuts, &mut strips), floors.as_deref(), (buffers, rows), stop)?;
        Ok(strips)
    };
    let floors = floors(sources, parts);
    let is_lowered = floors.is_some();
    match decoded(floors) {
        // Footers may be wrong.
        Err(Error::Data { .. } | Error::Source(_) | Error::Missing(_)) if is_lowered => decoded(None),
        strips => strips,
    }
}

/// A floor for each column of fields, if all their numbers fit 4-byte differences.
fn floors(sources: &[&StripSource<'_>], parts: &RouteParts<'_>) -> Option<Arc<[u64]>> {
    let (width, count, _) = shape(sources);
    if width != 2 * LOWERED_BYTES || count < LEAST_LOWERED {
        return None;
    }
    columns(sources)
        .map(|(source, of)| {
            let nulls = parts.sieve.nulls(of.nulls);
            source.file.file().ok()?.floor(source.file.row_group, of.column, nulls)
        })
        .collect()
}

/// The columns of fields, and how nulls are handled.
fn columns<'a>(
    sources: &'a [&StripSource<'a>],
) -> impl Iterator<Item = (&'a StripSource<'a>, FieldColumn<'a>)> {
    sources
        .iter()
        .flat_map(|source| (0..source.columns.len()).map(move |number| (*source, source.column(number))))
}

impl<'a> StripSource<'a> {
    /// The fields of a row group of a file.
    pub fn all_of(group: GroupFile<'a>, of: &GroupOf<'a>) -> Vec<Self> {
        let layout = &of.source.layout;
        let mut columns = layout.columns(of.schema).iter();
        let of_fields = layout.fields().iter().zip(layout.jagged_bytes(of.schema)).enumerate();
        let sources = of_fields.map(|(index, (field, &row_bytes))| Self {
            file: group,
            columns: columns.by_ref().take(field.columns.len()).collect(),
            index,
            place: of.places[index],
            lengths_place: of.places.get(index + 1).copied().unwrap_or(index),
            field,
            row_bytes,
        });
        sources.collect()
    }

    /// One of its columns.
    pub fn column(&self, number: usize) -> FieldColumn<'a> {
        FieldColumn {
            key: (self.index, number),
            column: self.columns[number],
            nulls: self.field.nulls[number],
            is_masked: self.field.is_masked(),
        }
    }
}

/// Decodes the columns of fields, one after another, to strips.
fn decode_columns(
    sources: &[&StripSource<'_>],
    parts: &RouteParts<'_>,
    (cuts, strips): (&[StripSplit], &mut [Strip]),
    floors: Option<&[u64]>,
    (buffers, rows): (&mut Buffers, &mut StepRows),
    stop: &AtomicBool,
) -> Result<()> {
    let sieve = &parts.sieve;
    let mut masks = 0..;
    for (number, (source, of)) in columns(sources).enumerate() {
        check(stop)?;
        let mask = if source.field.is_masked() { masks.next() } else { None };
        let (file, nulls) = (source.file, sieve.nulls(of.nulls));
        let mut take = |decoder: &mut dyn ScalarDecoder| {
            for (cut, strip) in cuts.iter().zip(&mut *strips) {
                let (values, valid) = strip.column(number, mask);
                sieve.read(cut.steps.clone(), decoder, of.nulls, Target { values, valid }, rows)?;
            }
            Ok(())
        };
        let decoded = match floors {
            None => file.scalars(FieldColumn { nulls, ..of }, buffers, take),
            Some(floors) => {
                let opened = file.file().and_then(|opened| {
                    opened.lowered(file.row_group, of.column, nulls, floors[number], buffers)
                });
                opened.and_then(|mut decoder| take(decoder.as_mut()))
            }
        };
        decoded.map_err(|error: Error| error.in_column(&of.column.name))?;
    }
    Ok(())
}
