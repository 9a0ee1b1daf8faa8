//! Rows of any length as rows of one: what they are filled up with, and what is cut off.

use crate::error::{Error, Result};
use crate::projection::column_rules::{self, Named, Rule};
use crate::projection::null_policy::{Fill, bits_of, nearest_to};
use crate::schema::columns::Dtype;

/// One end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where its first element is.
    Head,
    /// Where its last one is.
    Tail,
}

/// How rows are filled up, as the user says it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pad {
    /// Elements of each row.
    pub size: usize,
    /// What stands where a row has none.
    pub value: Fill,
    /// Where that is.
    pub at: End,
}

/// What makes of rows of any length those of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    /// Elements of each row.
    pub size: usize,
    /// The bits of what stands where a row has none.
    pub bits: u64,
    /// Where that is.
    pub at: End,
    /// Which end is kept of a row that has more elements; without one, such a row is an error.
    pub kept: Option<End>,
}

/// The padding of each column, of which the name and the type of the elements are given, as [`column_rules::resolve`]
/// finds it. `others` are the columns that can't be padded, and their types.
///
/// # Errors
/// As there; `Argument` also if a value does not fit its column's type, or what is said of truncation means no column
/// that is padded.
pub fn resolve(
    pads: &[Rule<Pad>],
    truncations: &[Rule<End>],
    columns: &[(&str, Dtype)],
    others: &[(&str, &str)],
) -> Result<Vec<Option<Padding>>> {
    let named: Vec<Named<'_>> = columns.iter().map(|&(name, _)| Named { name, stack: None }).collect();
    column_rules::check_fit(
        "pad",
        pads,
        &named,
        others,
        "texts, bytes and lists of numbers that differ in length",
    )?;
    let found = column_rules::resolve("pad", pads, &named)?;
    let are_padded = named.iter().zip(&found).filter(|(_, pad)| pad.is_some());
    let padded: Vec<Named<'_>> = are_padded.map(|(named, _)| *named).collect();
    if let (true, Some((Some(key), _))) = (padded.is_empty(), truncations.first()) {
        let reason =
            format!("truncate names '{key}', and no column is padded: pad says how many elements are kept");
        return Err(Error::Argument(reason));
    }
    let is_unpadded = |key: &str| {
        let is_padded = padded.iter().any(|column| column.name == key);
        !is_padded
            && named
                .iter()
                .map(|column| column.name)
                .chain(others.iter().map(|other| other.0))
                .any(|name| name == key)
    };
    let unpadded = truncations.iter().filter_map(|(key, _)| key.as_deref()).find(|key| is_unpadded(key));
    if let Some(key) = unpadded {
        let reason =
            format!("truncate names '{key}', which pad does not: pad says how many elements are kept");
        return Err(Error::Argument(reason));
    }
    let mut kept = column_rules::resolve("truncate", truncations, &padded)?.into_iter();
    let each = columns.iter().zip(found).map(|(&(name, dtype), pad)| {
        let Some(Pad { size, value, at }) = pad else { return Ok(None) };
        if size == 0 {
            return Err(Error::Argument(format!("pad says that rows of '{name}' have 0 elements")));
        }
        let bits = bits_of(value, dtype).ok_or_else(|| {
            let type_name = dtype.name();
            Error::Argument(format!(
                "the pad value {value} does not fit column '{name}', which is {type_name}{}",
                nearest_to(value, dtype)
            ))
        })?;
        Ok(Some(Padding { size, bits, at, kept: kept.next().flatten() }))
    });
    each.collect()
}
