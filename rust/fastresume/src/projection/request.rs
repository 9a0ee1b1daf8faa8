//! What the user asked of columns, before any file is looked at.

use std::sync::Arc;

use crate::projection::fill::Fill;
use crate::projection::padding::End;
use crate::schema::buckets::Buckets;
use crate::schema::columns::Dtype;

/// What is to become of nulls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Policy {
    /// They are errors.
    #[default]
    Refuse,
    /// A mask tells them apart.
    Mask,
    /// They become this number; texts and pieces of bytes become empty, whatever the number.
    Fill(Fill),
}

/// What becomes of decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimals {
    /// Integers of 64 bits in units of 10^-scale; one that does not fit is an error.
    Integers,
    /// The nearest floats of 64 bits.
    Floats,
    /// The bytes that the file holds, the highest first.
    Bytes,
}

/// How rows of any length are made of so many elements each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pad {
    /// Elements of each row.
    pub size: usize,
    /// What stands where a row has none.
    pub value: Fill,
    /// Where that is.
    pub at: End,
    /// Which end is kept of a row that has more; without one, such a row is an error.
    pub kept: Option<End>,
}

/// Numbers for texts or bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes {
    /// The values whose places are their codes; those of all files, in the order of their bytes, if none are named.
    pub values: Option<Arc<Vec<Vec<u8>>>>,
    /// The code of all values that are not named; without one, such a value is an error.
    pub unknown: Option<u64>,
}

/// The type that numbers are cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// The type.
    pub to: Dtype,
    /// Whether integers that a type of floats can't hold become its nearest float.
    pub is_rounding: bool,
}

/// What becomes of a column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnRules {
    /// What becomes of nulls; what the request says of all, if nothing is said here.
    pub nulls: Option<Policy>,
    /// What becomes of decimals; integers where the file says that all fit, if nothing is said.
    pub decimal: Option<Decimals>,
    /// Whether values of one length are the bytes that the file holds.
    pub is_raw: bool,
    /// What stands between the values that texts hold, which become lists.
    pub split: Option<Arc<[u8]>>,
    /// The type that numbers are cast to.
    pub cast: Option<Cast>,
    /// The buckets that texts, bytes and integers are put into.
    pub hash: Option<Buckets>,
    /// The codes of texts and bytes.
    pub codes: Option<Codes>,
    /// To which length lists and texts are filled up.
    pub pad: Option<Pad>,
    /// How many elements lists have, and those in them, `None` of outer ones that differ; none where all may differ.
    /// What a file says of its lists is believed if nothing is said here.
    pub fixed: Option<Vec<Option<usize>>>,
    /// Whether files may lack it.
    pub is_optional: bool,
    /// Whether its values stand in the paths of the files.
    pub is_of_path: bool,
}

/// Columns, and what becomes of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expression {
    /// Names, names of structs, or patterns.
    pub names: Vec<String>,
    /// What becomes of each column.
    pub rules: ColumnRules,
    /// The name of its tensor, if not that of the column.
    pub alias: Option<String>,
    /// What the user wrote, for people.
    pub text: String,
}

/// One entry of what is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Columns as they are, by name, name of a struct, or pattern; behind a `!`, those that are not delivered so.
    Plain(String),
    /// What becomes of columns.
    Made(Expression),
    /// Columns side by side, as one matrix.
    Stack {
        /// The name of its tensor.
        name: String,
        /// The columns.
        parts: Vec<Expression>,
        /// What the user wrote, for people.
        text: String,
    },
}

/// What is asked of the columns of a dataset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// What is delivered, in this order; all columns as they are if none is said.
    pub columns: Option<Vec<Entry>>,
    /// What becomes of the nulls of columns of which nothing else is said.
    pub nulls: Policy,
}
