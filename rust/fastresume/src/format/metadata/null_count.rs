//! How many nulls of a column footers tell of.

use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

use crate::format::metadata::size_estimate::to_count;
use crate::schema::columns::{Column, Kind};

/// The nulls that a chunk has for certain: of a column in lists the null lists and elements. 0 where the footer does not
/// tell.
#[must_use]
pub fn null_count(column: &Column, chunk: &ColumnChunkMetaData) -> u64 {
    if column.kind == Kind::Mask || chunk.column_descr().max_def_level() == 0 {
        return 0;
    }
    if column.lists > 0 {
        // What is stated of a leaf counts empty lists as well.
        let levels = chunk.definition_level_histogram().map_or(&[][..], |levels| levels.values());
        let count = |from: u8, to: usize| levels.get(usize::from(from)..to).unwrap_or_default().iter();
        let (element, all) = (column.element, levels.len().saturating_sub(1));
        let nulls = count(0, usize::from(column.level)).chain(count(element, all));
        return nulls.fold(0, |sum: u64, &more| sum.saturating_add(to_count(more)));
    }
    let is_own = i16::from(column.level) == chunk.column_descr().max_def_level();
    let told =
        chunk.statistics().filter(|told| is_own && !is_contradictory(told, to_count(chunk.num_values())));
    told.and_then(Statistics::null_count_opt).unwrap_or(0)
}

/// Whether statistics of so many values state more nulls than that, or nulls alone beside bounds: nulls have none.
pub fn is_contradictory(told: &Statistics, values: u64) -> bool {
    let is_bounded = told.min_bytes_opt().is_some();
    told.null_count_opt().is_some_and(|nulls| nulls > values || nulls == values && is_bounded)
}
