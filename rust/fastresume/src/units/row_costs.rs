//! What each row costs: the length of its list, of which levels alone are decoded, or its number.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::dataset::manifest::{GroupPlace, Manifest};
use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target};
use crate::decode::mended::Mended;
use crate::decode::open_file::OpenFile;
use crate::decode::survey::{BadRows, Survey, Trial};
use crate::error::{Error, Result, caught, check};
use crate::format::page::reader::Buffers;
use crate::intervals::set::Intervals;
use crate::memory::vectors::push;
use crate::projection::layout::Layout;
use crate::schema::columns::{Column, Dtype, Kind};
use crate::schema::nulls::Nulls;

/// So many rows are decoded in one go.
const ROWS_AT_A_TIME: usize = 1024;

/// What tells the costs of rows.
#[derive(Debug, Clone)]
pub enum CostSource {
    /// Lists in columns of these names, which have the same length in each row. Null lists have none.
    Lists(Vec<String>),
    /// The only column of a layout, which has numbers.
    Numbers(Layout),
}

/// What rows of a row group cost.
#[derive(Debug)]
pub struct RowCosts {
    /// The rows, counted in the row group: those that are asked for and can be read.
    pub rows: Intervals,
    /// Of each of them its cost.
    pub costs: Vec<u64>,
    /// The rows that can't be read, where that is no error.
    pub bad: Vec<BadRows>,
}

/// A row group, and which of its rows are asked for.
pub struct AskedCosts<'a> {
    /// The file, or why it can't be opened.
    pub file: std::result::Result<&'a OpenFile, &'a Error>,
    /// Where the row group is.
    pub place: GroupPlace,
    /// How many rows it has.
    pub group_rows: u64,
    /// Those that are asked for, counted in the row group.
    pub rows: Intervals,
    /// Whether rows that can't be read are left out, and no error.
    pub masks_damage: bool,
}

impl CostSource {
    /// The columns that a file is read for.
    ///
    /// # Errors
    /// `Data` if one is not there, or is no list of values.
    pub fn columns<'a>(&'a self, manifest: &'a Manifest, file: usize) -> Result<Vec<&'a Column>> {
        let schema = manifest.schema_of(file);
        let names = match self {
            Self::Numbers(layout) => return Ok(layout.columns(schema).first().into_iter().collect()),
            Self::Lists(names) => names,
        };
        let there = manifest.columns(schema);
        let each = names.iter().map(|name| {
            let column = there.iter().find(|column| column.name == *name && column.kind != Kind::Mask);
            let column = column.ok_or_else(|| Error::refused("there is no such column").in_column(name))?;
            if column.lists == 1 && matches!(column.kind, Kind::List) {
                return Ok(column);
            }
            let found = column.type_of_rows();
            let reason = format!("rows are packed by lists of values, found the type {found}");
            Err(Error::refused(reason).in_column(name))
        });
        let found = each.collect::<Result<_>>();
        found.map_err(|error| error.in_file(&manifest.files()[file].path))
    }

    /// What rows of a row group cost, by the columns of its file.
    ///
    /// # Errors
    /// `Data` if a cost is null or negative, lists of a row have other lengths, or the file is damaged; `Source` if it can't
    /// be read; `Interrupted` once `stop` is set. It names row group and column.
    pub fn read(
        &self,
        columns: &[&Column],
        asked: &AskedCosts<'_>,
        buffers: &mut Buffers,
        stop: &AtomicBool,
    ) -> Result<RowCosts> {
        let in_group = |error: Error| error.in_row_group(asked.place.index);
        let tried = caught(|| self.of_all(columns, asked, &asked.rows, &[], buffers, stop));
        let error = match tried {
            Ok(costs) => return Ok(RowCosts { rows: asked.rows.clone(), costs, bad: Vec::new() }),
            Err(error) if asked.masks_damage && error.is_damage() => error,
            Err(error) => return Err(in_group(error)),
        };
        let group_rows = usize::try_from(asked.group_rows).unwrap_or(usize::MAX);
        let surveys = columns.iter().map(|column| match asked.file {
            Ok(file) => {
                let is_jagged = matches!(self, Self::Lists(_));
                Survey::of(Trial { row_group: asked.place.index, column, is_jagged }, file, buffers, stop)
            }
            Err(error) => Ok(Survey::nothing(group_rows, error.clone())),
        });
        let surveys = surveys.collect::<Result<Vec<_>>>().map_err(in_group)?;
        let mut bad = Vec::new();
        for (survey, column) in surveys.iter().zip(columns) {
            for BadRows { rows, cause } in &survey.bad {
                let cause = in_group(cause.clone().in_column(&column.name));
                push(&mut bad, BadRows { rows: rows.clone(), cause })?;
            }
        }
        if bad.is_empty() {
            return Err(in_group(error));
        }
        let ranges = bad.iter().map(|of| of.rows.start as u64..of.rows.end as u64).collect();
        let good = Intervals::new(ranges)?.complement(asked.group_rows);
        let rows = asked.rows.intersection(&good)?;
        let costs = match asked.file {
            Err(_) => Vec::new(),
            Ok(_) => {
                caught(|| self.of_all(columns, asked, &rows, &surveys, buffers, stop)).map_err(in_group)?
            }
        };
        Ok(RowCosts { rows, costs, bad })
    }

    /// What these rows cost by all columns, which must agree. `surveys` say of each what can be decoded, if not all can.
    fn of_all(
        &self,
        columns: &[&Column],
        asked: &AskedCosts<'_>,
        rows: &Intervals,
        surveys: &[Survey],
        buffers: &mut Buffers,
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let mut found: Option<(&str, Vec<u64>)> = None;
        for (index, column) in columns.iter().enumerate() {
            let (survey, asked) = (surveys.get(index), (asked, rows));
            let own = match self {
                Self::Lists(_) => lengths(column, asked, survey, buffers, stop),
                Self::Numbers(_) => numbers(column, asked, survey, buffers, stop),
            };
            let own = own.map_err(|error| error.in_column(&column.name))?;
            let Some((first, costs)) = &found else {
                found = Some((&column.name, own));
                continue;
            };
            if let Some(place) = own.iter().zip(costs).position(|(own, other)| own != other) {
                let reason = format!(
                    "columns are packed alike where their lists have the same lengths: row {} of the row group has {} \
                     elements here, and {} in '{first}'; pack them by a dataset each, or leave such rows out with rows=",
                    row_at(rows, place),
                    own[place],
                    costs[place]
                );
                return Err(Error::refused(reason).in_column(&column.name));
            }
        }
        Ok(found.map(|(_, costs)| costs).unwrap_or_default())
    }
}

/// The row at a place among those in intervals.
#[must_use]
pub fn row_at(rows: &Intervals, place: usize) -> u64 {
    rows.slice(place as u64..place as u64 + 1).next().map_or(0, |run| run.start)
}

/// Rows of a row group.
type CostRows<'a> = (&'a AskedCosts<'a>, &'a Intervals);

/// Memory for what is decoded by each of some decoders.
fn memory(survey: &Survey, buffers: &Buffers) -> Vec<Buffers> {
    survey.good.iter().map(|_| buffers.others()).collect()
}

/// The lengths of the lists of rows.
fn lengths(
    column: &Column,
    (asked, rows): CostRows<'_>,
    survey: Option<&Survey>,
    buffers: &mut Buffers,
    stop: &AtomicBool,
) -> Result<Vec<u64>> {
    let (file, index) = (asked.file.map_err(Clone::clone)?, asked.place.index);
    // A byte for each element.
    let marks = column.element_marks();
    let Some(survey) = survey else {
        let mut decoder = file.jagged(index, &marks, Nulls::Masked, true, buffers)?;
        return lengths_of(decoder.as_mut(), rows, stop);
    };
    let mut memory = memory(survey, buffers);
    let mut good = Vec::with_capacity(memory.len());
    for (part, buffers) in survey.good.iter().zip(&mut memory) {
        let file = part.file(file, index, column)?;
        good.push((part.rows.clone(), file.jagged(index, &marks, Nulls::Masked, true, buffers)?));
    }
    let mut mended: Mended<Box<dyn JaggedDecoder + '_>> = Mended::new(good, 0, 0);
    lengths_of(&mut mended, rows, stop)
}

fn lengths_of(decoder: &mut dyn JaggedDecoder, rows: &Intervals, stop: &AtomicBool) -> Result<Vec<u64>> {
    let (mut lengths, mut some) = (Vec::new(), JaggedRows::default());
    each_step(rows, stop, |skipped, count, _| {
        decoder.skip(skipped)?;
        some.clear();
        decoder.read(count, &mut some)?;
        (0..some.ends.len()).try_for_each(|row| push(&mut lengths, some.bytes_of(row).len() as u64))
    })?;
    Ok(lengths)
}

/// The numbers in rows.
fn numbers(
    column: &Column,
    (asked, rows): CostRows<'_>,
    survey: Option<&Survey>,
    buffers: &mut Buffers,
    stop: &AtomicBool,
) -> Result<Vec<u64>> {
    let (file, index) = (asked.file.map_err(Clone::clone)?, asked.place.index);
    let Some(survey) = survey else {
        let mut decoder = file.scalars(index, column, Nulls::Masked, buffers)?;
        return numbers_of(column, decoder.as_mut(), rows, stop);
    };
    let mut memory = memory(survey, buffers);
    let mut good = Vec::with_capacity(memory.len());
    for (part, buffers) in survey.good.iter().zip(&mut memory) {
        let file = part.file(file, index, column)?;
        good.push((part.rows.clone(), file.scalars(index, column, Nulls::Masked, buffers)?));
    }
    let mut mended: Mended<Box<dyn ScalarDecoder + '_>> = Mended::new(good, column.row_bytes(), 0);
    numbers_of(column, &mut mended, rows, stop)
}

fn numbers_of(
    column: &Column,
    decoder: &mut dyn ScalarDecoder,
    rows: &Intervals,
    stop: &AtomicBool,
) -> Result<Vec<u64>> {
    let dtype = column.dtype.ok_or_else(|| Error::refused("its numbers can't be delivered"))?;
    let width = dtype.width();
    let (mut memory, mut valid) = ([0_u64; ROWS_AT_A_TIME], [0_u8; ROWS_AT_A_TIME]);
    let mut numbers = Vec::new();
    each_step(rows, stop, |skipped, count, first| {
        decoder.skip(skipped)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
        let values = &mut bytes[..count * width];
        decoder.read(Target { values, valid: &mut valid[..count] })?;
        let each = bytes.chunks_exact(width).zip(&valid[..count]);
        each.enumerate().try_for_each(|(place, (bytes, valid))| {
            let wrong = |what: String| {
                let leaves_out =
                    format!("filter= leaves such rows out, as in fr.col('{}') >= 0", column.name);
                Error::refused(format!("row {} of the row group {what}: {leaves_out}", first + place))
            };
            if *valid == 0 {
                return Err(wrong("is null, and no cost".to_owned()));
            }
            let number = number(dtype, bytes)
                .ok_or_else(|| Error::refused(format!("a cost is an integer, found {}", dtype.name())))?;
            let cost = u64::try_from(number)
                .map_err(|_| wrong(format!("costs {number}, and a cost is at least 0")))?;
            push(&mut numbers, cost)
        })
    })?;
    Ok(numbers)
}

/// An integer; `None` of another type.
fn number(dtype: Dtype, bytes: &[u8]) -> Option<i128> {
    Some(match (dtype, bytes) {
        (Dtype::Bool | Dtype::Uint8, &[one]) => one.into(),
        (Dtype::Int8, &[one]) => i8::from_le_bytes([one]).into(),
        (Dtype::Int16, &[a, b]) => i16::from_le_bytes([a, b]).into(),
        (Dtype::Uint16, &[a, b]) => u16::from_le_bytes([a, b]).into(),
        (Dtype::Int32, _) => i32::from_le_bytes(*bytes.first_chunk()?).into(),
        (Dtype::Uint32, _) => u32::from_le_bytes(*bytes.first_chunk()?).into(),
        (Dtype::Int64, _) => i64::from_le_bytes(*bytes.first_chunk()?).into(),
        (Dtype::Uint64, _) => u64::from_le_bytes(*bytes.first_chunk()?).into(),
        _ => return None,
    })
}

/// Calls `take` for some rows after others: with how many lie between those before and these, how many these are, and the
/// first of them.
fn each_step(
    rows: &Intervals,
    stop: &AtomicBool,
    mut take: impl FnMut(usize, usize, usize) -> Result<()>,
) -> Result<()> {
    let to_usize = |row: u64| usize::try_from(row).unwrap_or(usize::MAX);
    let mut reached = 0;
    for run in rows.ranges() {
        let Range { start, end } = to_usize(run.start)..to_usize(run.end);
        for first in (start..end).step_by(ROWS_AT_A_TIME) {
            check(stop)?;
            let count = ROWS_AT_A_TIME.min(end - first);
            take(first - reached, count, first)?;
            reached = first + count;
        }
    }
    Ok(())
}
