//! How many nulls of a column footers count.

use parquet::file::metadata::{ColumnChunkMetaData, LevelHistogram};
use parquet::file::statistics::Statistics;
use serde::{Deserialize, Serialize};

use crate::format::metadata::size_estimate::to_count;
use crate::schema::columns::{Column, Kind};

/// The nulls of a column, as far as footers count them; of a column in lists the null lists and elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullCount {
    /// So many there are for certain.
    pub least: u64,
    /// Whether there may be more.
    pub may_be_more: bool,
}

impl NullCount {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { least: 0, may_be_more: true };

    /// That of a column whose nulls nobody counted, by the definition level of its values: none if its type has none.
    #[must_use]
    pub fn uncounted(column: &Column, max_level: i16) -> Self {
        let is_whole_list = column.lists == 1 && column.level == 0 && i16::from(column.element) == max_level;
        let has_none = column.kind == Kind::Mask || max_level == 0 || is_whole_list;
        if has_none { Self::default() } else { Self::UNKNOWN }
    }

    /// That of a chunk.
    #[must_use]
    pub fn of_chunk(column: &Column, chunk: &ColumnChunkMetaData) -> Self {
        let max_level = chunk.column_descr().max_def_level();
        if chunk.num_values() == 0 || Self::uncounted(column, max_level) == Self::default() {
            return Self::default();
        }
        if column.lists > 0 {
            return Self::of_lists(column, chunk);
        }
        let is_own = i16::from(column.level) == max_level;
        let statistics = chunk
            .statistics()
            .filter(|statistics| is_own && !is_contradictory(statistics, to_count(chunk.num_values())));
        let least = statistics.and_then(Statistics::null_count_opt);
        least.map_or(Self::UNKNOWN, |least| Self { least, may_be_more: false })
    }

    fn of_lists(column: &Column, chunk: &ColumnChunkMetaData) -> Self {
        let (list, element) = (usize::from(column.level), usize::from(column.element));
        let max_level = usize::try_from(chunk.column_descr().max_def_level()).unwrap_or_default();
        // What statistics state of a leaf counts empty lists as well.
        let Some(levels) = chunk.definition_level_histogram().map(LevelHistogram::values) else {
            return Self::UNKNOWN;
        };
        let sum = |from: usize, to: usize| {
            let counts = levels.get(from..to).unwrap_or_default().iter();
            counts.fold(0, |sum: u64, &more| sum.saturating_add(to_count(more)))
        };
        let least = sum(0, list).saturating_add(sum(element, max_level));
        // Levels between those of the outermost list and of an element are inner lists, empty or null.
        Self { least, may_be_more: levels.len() != max_level + 1 || sum(list + 1, element) > 0 }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = self.least.saturating_add(other.least);
        Self { least, may_be_more: self.may_be_more || other.may_be_more }
    }

    /// So many there are, if footers count all.
    #[must_use]
    pub fn exact(self) -> Option<u64> {
        (!self.may_be_more).then_some(self.least)
    }
}

/// Whether statistics of so many values state more nulls than that, or nulls alone beside bounds: nulls have none.
pub fn is_contradictory(statistics: &Statistics, values: u64) -> bool {
    let is_bounded = statistics.min_bytes_opt().is_some();
    statistics.null_count_opt().is_some_and(|nulls| nulls > values || nulls == values && is_bounded)
}
