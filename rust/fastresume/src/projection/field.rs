//! One tensor of a batch, before there is any.

use std::sync::Arc;

use crate::projection::padding::Padding;
use crate::schema::columns::{Dtype, Kind};
use crate::schema::nulls::Nulls;

/// One tensor of a batch: `[rows]`, or `[rows, k]` where k columns are stacked or a row has k elements; or a
/// jagged one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key of the tensor.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// What its rows are.
    pub kind: Kind,
    /// The number of dimensions in which rows differ in length.
    pub depth: usize,
    /// Elements of a row of its one column, where it is no single number and all rows have as many; of lists, elements of
    /// each value, where these are bytes.
    pub size: Option<usize>,
    /// Of lists, how many elements they have at each level, from the outermost on; of lists that differ in length, how
    /// many those in them have. Else nothing.
    pub sizes: Vec<usize>,
    /// What its numbers count or stand for, where their type alone does not say it.
    pub unit: Option<String>,
    /// The columns of the files that it holds.
    pub columns: Vec<String>,
    /// Whether it is a matrix; a stack of one column is one, too.
    pub is_stacked: bool,
    /// How its rows are made of so many elements each, if they have any number of them in the files. The lengths
    /// that they had are the field behind it.
    pub padding: Option<Padding>,
    /// What becomes of the nulls of each column.
    pub nulls: Vec<Nulls>,
    /// How many nulls its columns have in all files; none where not all are counted before they are read.
    pub null_count: Option<u64>,
    /// What the user wrote of it, if anything.
    pub text: Option<Arc<str>>,
}

impl Field {
    /// One number per row of some columns; nothing is said yet of nulls.
    #[must_use]
    pub fn new(name: String, dtype: Dtype, kind: Kind, columns: Vec<String>) -> Self {
        Self {
            name,
            dtype,
            kind,
            depth: 0,
            size: None,
            sizes: Vec::new(),
            unit: None,
            columns,
            is_stacked: false,
            padding: None,
            nulls: Vec::new(),
            null_count: None,
            text: None,
        }
    }

    /// The field with its rows padded, and the field of their lengths, which stands behind it.
    #[must_use]
    pub fn padded(mut self, padding: Padding) -> Vec<Self> {
        let name = format!("{}_length", self.name);
        let lengths = Self::new(name, Dtype::Int64, Kind::Length, self.columns.clone());
        let lengths = Self { nulls: vec![Nulls::Filled(0)], text: self.text.clone(), ..lengths };
        if self.size.is_some() {
            self.sizes = std::iter::once(padding.size).chain(self.row_shape()).collect();
        }
        (self.kind, self.depth) = (Kind::Scalar, 0);
        (self.size, self.padding) = (Some(padding.numbers()), Some(padding));
        vec![self, lengths]
    }

    /// The field that tells which elements of its lists are null: rows of one length, as its own are. Elements may be bytes,
    /// which are null together.
    #[must_use]
    pub fn element_marks(&self, are_bytes: bool) -> Self {
        let name = format!("{}_values_valid", self.name);
        let of = |padding: Padding| if are_bytes { 1 } else { padding.of };
        let padding = self.padding.map(|padding| Padding { bits: 0, of: of(padding), ..padding });
        let marks = Self::new(name, Dtype::Bool, Kind::Marks, self.columns.clone());
        let sizes = if are_bytes { Vec::new() } else { self.sizes.clone() };
        let size = padding.map_or(self.size, |padding| Some(padding.numbers()));
        Self { size, sizes, padding, nulls: vec![Nulls::Filled(0)], text: self.text.clone(), ..marks }
    }

    /// Bytes of one row of values, where rows have one length.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.element_bytes() * self.columns.len()
    }

    /// Bytes of one row of one column, where rows have one length.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.dtype.width().saturating_mul(self.size.unwrap_or(1))
    }

    /// Whether its rows have one length as they are decoded, and come by themselves.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        !self.kind.is_jagged() && self.padding.is_none() && self.kind != Kind::Length
    }

    /// Whether the field behind it has the lengths that its rows had before they were padded.
    #[must_use]
    pub fn has_lengths(&self) -> bool {
        self.padding.is_some() && self.kind != Kind::Marks
    }

    /// Whether a row of it is one number.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.columns.len() == 1 && self.size.is_none()
    }

    /// The shape of one row, where rows have one length; nothing of a single number, or of stacked columns.
    #[must_use]
    pub fn row_shape(&self) -> Vec<usize> {
        if self.sizes.is_empty() { self.size.into_iter().collect() } else { self.sizes.clone() }
    }

    /// Whether a mask tells which values are valid.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.nulls.contains(&Nulls::Masked)
    }

    /// Whether nulls of its columns are errors of which nothing is known before they are read.
    #[must_use]
    pub fn refuses_uncounted(&self) -> bool {
        self.null_count.is_none() && self.nulls.contains(&Nulls::Refused)
    }

    /// The shape of the bytes that tell which numbers of an element of its lists are null; none if nothing tells it.
    #[must_use]
    pub fn mark_shape(&self) -> Option<&[usize]> {
        let are_marked = matches!(self.kind, Kind::List | Kind::Lists) && self.is_masked();
        are_marked.then_some(&self.sizes)
    }

    /// How many bytes of each element of its lists tell which of its numbers are null.
    #[must_use]
    pub fn mark_bytes(&self) -> usize {
        self.mark_shape().map_or(0, |sizes| sizes.iter().product())
    }

    /// Whether bytes of each element of its lists tell which of its numbers are null.
    #[must_use]
    pub fn marks_elements(&self) -> bool {
        self.mark_shape().is_some()
    }

    /// The number of levels of lists or texts in its lists.
    #[must_use]
    pub fn inner_levels(&self) -> usize {
        self.depth.saturating_sub(1)
    }

    /// Bytes of one row of the mask.
    #[must_use]
    pub fn mask_bytes(&self) -> usize {
        if self.is_masked() { self.columns.len() } else { 0 }
    }
}
