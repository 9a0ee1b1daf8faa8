//! What a table tells of its files, as Python's values say it: attribute by attribute.

use std::collections::HashMap;

use fastresume::{FileValue, TableColumn, TableSnapshot};
use pyo3::prelude::*;

/// A value that a column has in a whole file.
#[derive(FromPyObject)]
enum ValueArgument {
    Integer(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A column of a table.
#[derive(FromPyObject)]
struct ColumnArgument {
    name: String,
    field_id: Option<i32>,
    names_in_files: Vec<String>,
    type_name: Option<String>,
    lists: usize,
    structs: Vec<String>,
    is_struct: bool,
    is_there: bool,
}

/// What a table tells of its files.
#[derive(FromPyObject)]
pub struct TableArgument {
    columns: Vec<ColumnArgument>,
    values: Vec<HashMap<String, Option<ValueArgument>>>,
    shared_names: Vec<String>,
}

impl TableArgument {
    pub fn snapshot(self) -> TableSnapshot {
        let columns = self.columns.into_iter().map(|column| {
            let ColumnArgument {
                name,
                field_id,
                names_in_files,
                type_name,
                lists,
                structs,
                is_struct,
                is_there,
            } = column;
            TableColumn { name, field_id, names_in_files, type_name, lists, structs, is_struct, is_there }
        });
        let of_file = |values: HashMap<String, Option<ValueArgument>>| {
            let each = values.into_iter();
            each.map(|(name, value)| (name, value.map_or(FileValue::Null, ValueArgument::value))).collect()
        };
        TableSnapshot {
            columns: columns.collect(),
            values: self.values.into_iter().map(of_file).collect(),
            shared_names: self.shared_names,
        }
    }
}

impl ValueArgument {
    fn value(self) -> FileValue {
        match self {
            Self::Integer(integer) => FileValue::Integer(integer),
            Self::Float(float) => FileValue::Float(float),
            Self::Text(text) => FileValue::Text(text.into_bytes()),
            Self::Bytes(bytes) => FileValue::Text(bytes),
        }
    }
}
