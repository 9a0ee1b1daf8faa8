//! How sequences are made of lists.

use std::sync::Arc;

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::order::selection::Selection;
use crate::projection::layout::{Field, Layout};
use crate::schema::types::{Dtype, Kind};
use crate::units::sequence_table::SequenceTable;

/// How sequences are made of lists.
#[derive(Debug, Clone)]
pub struct Packing {
    /// The tensors of lists that are packed alike.
    pub names: Vec<String>,
    /// The elements of a sequence.
    pub length: usize,
    /// What stands behind each list that is not empty, as bytes of an element of each column; or nothing.
    pub separators: Option<Vec<Vec<u8>>>,
}

/// Rows of lists, and which sequences they are cut into.
#[derive(Debug, Clone)]
pub struct PackedRows {
    /// How.
    pub packing: Arc<Packing>,
    /// Which rows each sequence is cut from.
    pub table: Arc<SequenceTable>,
    /// The selected rows.
    pub rows: Arc<Selection>,
}

impl Packing {
    /// The same, with columns in the order of these names.
    ///
    /// # Errors
    /// `Data` if others are packed.
    pub fn in_order_of(&self, names: &[String]) -> Result<Self> {
        let place = |name: &String| self.names.iter().position(|own| own == name);
        let places: Option<Vec<usize>> = names.iter().map(place).collect();
        let Some(places) = places.filter(|places| places.len() == self.names.len()) else {
            return Err(Error::data("the sources of a mixture pack other columns"));
        };
        let separators = self.separators.as_ref();
        let separators = separators.map(|each| places.iter().map(|&place| each[place].clone()).collect());
        Ok(Self { names: names.to_vec(), length: self.length, separators })
    }

    /// The layout of sequences, where rows have this one: a tensor of each column, then the documents' numbers and the places
    /// in them.
    ///
    /// # Errors
    /// `Data` if a tensor is not one of lists of values.
    pub fn layout(&self, rows: &Layout, manifest: &Manifest) -> Result<Layout> {
        let of = |name: &str, dtype, columns: Vec<String>| Field {
            size: Some(self.length),
            ..Field::new(name.to_owned(), dtype, Kind::Scalar, columns)
        };
        let mut fields = Vec::with_capacity(self.names.len() + 2);
        for name in &self.names {
            let own = &rows.fields()[field_of(rows, name)?.0];
            fields.push(of(name, own.dtype, own.columns.clone()));
        }
        for name in ["document", "position"] {
            fields.push(of(name, Dtype::Int32, vec![name.to_owned()]));
        }
        Ok(Layout::new(manifest, fields, Vec::new()))
    }

    /// The bytes of a token in each column, where rows have this layout.
    ///
    /// # Errors
    /// As for `layout`.
    pub fn widths(&self, rows: &Layout) -> Result<Vec<usize>> {
        self.names.iter().map(|name| Ok(field_of(rows, name)?.1)).collect()
    }
}

/// The number of a field of lists of values, and the bytes of an element.
///
/// # Errors
/// `Data` if it is not there, or is none of lists of values.
pub fn field_of(layout: &Layout, name: &str) -> Result<(usize, usize)> {
    let mut fields = layout.fields().iter().enumerate();
    let found = fields.find(|(_, field)| field.name == name && field.kind.is_jagged() && field.depth == 1);
    let found = found.map(|(index, field)| (index, field.element_bytes())).filter(|(_, width)| *width > 0);
    found.ok_or_else(|| Error::data(format!("column '{name}' is no list of values, and can't be packed")))
}
