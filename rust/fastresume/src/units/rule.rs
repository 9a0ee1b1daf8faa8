//! How rows become units: all that is asked of each kind of them, before there is a table.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::projection::rule_value::RuleValue;
use crate::units::bin_table::BinTable;
use crate::units::row_costs::{RowCosts, row_at};
use crate::units::sequence_table::{ANCHORS, SequenceTable};
use crate::units::stretches::{MostOfStretch, OfGroups, Stretch, of_costs};
use crate::units::unit_table::UnitTable;

/// What becomes of rows, by their costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Sequences are cut from lists.
    Sequences {
        /// The tokens of each.
        length: u64,
        /// Whether one token more stands behind each list that is not empty.
        has_separator: bool,
        /// Whether what is left of a file is filled up.
        is_filled_up: bool,
    },
    /// Bins are made of them.
    Bins {
        /// What a bin has at most.
        most: MostOfStretch,
        /// Whether a row that costs more is an error.
        is_error: bool,
    },
}

impl Rule {
    /// The rule of a name, with what it says.
    ///
    /// # Errors
    /// `Argument` if there is none, or it says what it can't.
    pub fn of(name: &str, says: RuleValue) -> Result<Self> {
        match name {
            "packed" => {
                let (length, has_separator, is_filled_up): (u64, _, _) = says.read()?;
                Ok(Self::Sequences { length: length.max(1), has_separator, is_filled_up })
            }
            "bins" => {
                let (cost, rows, is_error): (_, Option<u64>, _) = says.read()?;
                Ok(Self::Bins { most: MostOfStretch { cost, rows: rows.unwrap_or(u64::MAX) }, is_error })
            }
            _ => Err(Error::Argument(format!("rows are made no units called '{name}'"))),
        }
    }

    /// The stretches of rows of these costs.
    ///
    /// # Errors
    /// `Data` if a row costs more than a bin may, where that is an error.
    pub fn stretches(self, of: &RowCosts) -> Result<Vec<Stretch>> {
        let costs = of.costs.iter().copied();
        match self {
            Self::Sequences { has_separator, .. } => {
                let behind = |cost: u64| cost.saturating_add(u64::from(has_separator && cost > 0));
                of_costs(costs.map(behind), ANCHORS)
            }
            Self::Bins { most, is_error } => {
                let too_large = costs.clone().position(|cost| is_error && cost > most.cost);
                if let Some(place) = too_large {
                    return Err(Error::refused(format!(
                        "row {} of the row group costs {}, and a bin at most {}: write oversized='alone', or a larger cost=",
                        row_at(&of.rows, place),
                        of.costs[place],
                        most.cost
                    )));
                }
                of_costs(costs, most)
            }
        }
    }

    /// What stretches depend on, as the cache knows them: sequences of any length are cut from the same ones.
    #[must_use]
    pub fn of_costs(self) -> String {
        match self {
            Self::Sequences { has_separator, .. } => {
                format!("Sequences {{ has_separator: {has_separator} }}")
            }
            Self::Bins { .. } => format!("{self:?}"),
        }
    }

    /// The units of these files. Sequences are cut from these tokens of each, from all where none are named.
    ///
    /// # Errors
    /// `Argument` if there is no memory for them; `Data` if they are too many.
    pub fn table(self, cut: &[Range<u64>], files: &[OfGroups]) -> Result<UnitTable> {
        Ok(match self {
            Self::Sequences { length, is_filled_up, .. } => {
                UnitTable::Sequences(Arc::new(SequenceTable::of_files(length, is_filled_up, cut, files)?))
            }
            Self::Bins { .. } => UnitTable::Bins(Arc::new(BinTable::of_files(files)?)),
        })
    }
}
