//! Decodes columns of one width side by side, in strips of rows.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::routing::{RouteParts, StripSplit};
use crate::batch::slots::pending::{LEAST_LOWERED, LOWERED_BYTES, Strip};
use crate::decode::decoder::Target;
use crate::decode::open_file::OpenFile;
use crate::decode::row_picker::StepRows;
use crate::error::{Error, Result, check};
use crate::format::page::reader::Buffers;
use crate::memory::buffer::Memory;
use crate::projection::field::Field;
use crate::schema::columns::Column;
use crate::schema::nulls::Nulls;

/// A field of one row group, open for reading.
pub struct StripSource<'a> {
    pub file: &'a OpenFile,
    pub row_group: usize,
    /// Its columns in the file.
    pub columns: Vec<&'a Column>,
    pub index: usize,
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
        let strip = |cut: &StripSplit| Strip::new(cut.rows.len(), shape(sources), floors.clone(), memory());
        let mut strips = cuts.iter().map(strip).collect::<Result<Vec<Strip>>>()?;
        decode_columns(sources, parts, (cuts, &mut strips), floors.as_deref(), (buffers, rows), stop)?;
        Ok(strips)
    };
    let floors = floors(sources, parts);
    let is_lowered = floors.is_some();
    match decoded(floors) {
        // Footers may be wrong.
        Err(Error::Data { .. }) if is_lowered => decoded(None),
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
        .map(|(source, column, nulls)| source.file.floor(source.row_group, column, parts.sieve.nulls(nulls)))
        .collect()
}

/// The columns of fields, and how nulls are handled.
fn columns<'a>(
    sources: &'a [&StripSource<'a>],
) -> impl Iterator<Item = (&'a StripSource<'a>, &'a Column, Nulls)> {
    sources.iter().flat_map(|source| {
        let nulls = source.columns.iter().zip(&source.field.nulls);
        nulls.map(move |(column, nulls)| (*source, *column, *nulls))
    })
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
    for (number, (source, column, nulls)) in columns(sources).enumerate() {
        check(stop)?;
        let mask = if source.field.is_masked() { masks.next() } else { None };
        let mut decode = || {
            let (file, group, told) = (source.file, source.row_group, sieve.nulls(nulls));
            let mut decoder = match floors {
                None => file.scalars(group, column, told, buffers)?,
                Some(floors) => file.lowered(group, column, told, floors[number], buffers)?,
            };
            for (cut, strip) in cuts.iter().zip(&mut *strips) {
                let (values, valid) = strip.column(number, mask);
                sieve.read(cut.steps.clone(), decoder.as_mut(), nulls, Target { values, valid }, rows)?;
            }
            Ok(())
        };
        decode().map_err(|error: Error| error.in_column(&column.name))?;
    }
    Ok(())
}
