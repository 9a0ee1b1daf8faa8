//! The least and the greatest integer of a column, as footers tell.

use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use serde::{Deserialize, Serialize};

use crate::format::metadata::null_count::is_contradictory;
use crate::format::metadata::size_estimate::to_count;
use crate::schema::columns::{Column, Stored};

/// Two integers that are among the values of a column, and between which all of those lie of which footers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegerBounds {
    /// The least one.
    pub least: i128,
    /// The greatest one.
    pub greatest: i128,
}

impl IntegerBounds {
    /// Whether a column holds integers, in lists or not.
    #[must_use]
    pub fn are_of(column: &Column) -> bool {
        matches!(column.stored, Stored::Number(dtype) if dtype.is_integer())
    }

    /// Those of a chunk, if its statistics have some that can be believed.
    #[must_use]
    pub fn of_chunk(column: &Column, chunk: &ColumnChunkMetaData) -> Option<Self> {
        let Stored::Number(dtype) = column.stored else { return None };
        let statistics = chunk.statistics().filter(|statistics| !statistics.is_min_max_deprecated())?;
        if !dtype.is_integer() || is_contradictory(statistics, to_count(chunk.num_values())) {
            return None;
        }
        let is_signed = dtype.is_signed();
        let [least, greatest] = match statistics {
            Statistics::Int32(statistics) => [statistics.min_opt(), statistics.max_opt()].map(|bound| {
                bound.map(|&bound| if is_signed { bound.into() } else { bound.cast_unsigned().into() })
            }),
            Statistics::Int64(statistics) => [statistics.min_opt(), statistics.max_opt()].map(|bound| {
                bound.map(|&bound| if is_signed { bound.into() } else { bound.cast_unsigned().into() })
            }),
            _ => return None,
        };
        let (least, greatest) = (least?, greatest?);
        (least <= greatest).then_some(Self { least, greatest })
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }
}
