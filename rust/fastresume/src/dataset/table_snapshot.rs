//! What a table tells of the files of one of its snapshots: how their columns are called now, and which values
//! they have that are not in them.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dataset::file_summary::Summary;
use crate::dataset::file_value::Value;
use crate::dataset::found_files::FoundFile;
use crate::error::{Error, Result};
use crate::schema::columns::{Column, Dtype, Kind, Stored};
use crate::schema::shaping::Shaping;

/// A column of the table: a leaf of its schema, or a struct.
#[derive(Debug, Clone)]
pub struct TableColumn {
    /// What it is called, in the form of [`Column::name`].
    pub name: String,
    /// What files call it, each by one of these names; none of one that is in no file.
    pub names_in_files: Vec<String>,
    /// Its type, where it is a plain value: `int32`, `date[day]`, `string`.
    pub type_name: Option<String>,
    /// Whether it is a struct, which has no values of its own.
    pub is_struct: bool,
}

/// What a table tells of its files.
#[derive(Debug, Clone, Default)]
pub struct TableSnapshot {
    /// In the table's order.
    pub columns: Vec<TableColumn>,
    /// Of each file, in the order of the paths: the values of columns that may not be in it.
    pub values: Vec<HashMap<String, Value>>,
}

/// The values that a table tells of each file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Told {
    columns: Vec<Column>,
    /// Of each file those of all columns.
    values: Vec<Vec<Value>>,
}

/// The columns of a schema under the table's names, and the place of each in the file.
type Renamed = (Arc<[Column]>, Vec<Option<usize>>);

impl Told {
    /// The column of a name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The value of a column in a file; `None` if the table tells nothing of such a column.
    pub fn value(&self, file: usize, name: &str) -> Option<Value> {
        let place = self.columns.iter().position(|column| column.name == name)?;
        let told = self.values.get(file).and_then(|values| values.get(place));
        Some(told.cloned().unwrap_or(Value::Null))
    }
}

impl TableSnapshot {
    /// The files as the table has them: with its columns, in its order and by its names.
    ///
    /// A column that a file lacks is null there. What the table does not have is left out.
    ///
    /// # Errors
    /// `Argument` if values are told of another number of files.
    pub fn applied(&self, found: &[FoundFile]) -> Result<(Vec<FoundFile>, Told)> {
        if self.values.len() != found.len() {
            return Err(Error::Argument(format!(
                "the table tells of {} files, {} were found",
                self.values.len(),
                found.len()
            )));
        }
        let is_told = |column: &TableColumn| self.values.iter().any(|of| of.contains_key(&column.name));
        let is_held = |column: &TableColumn| {
            let mut before: Option<&Arc<[Column]>> = None;
            found.iter().any(|file| {
                let columns = &file.summary.columns;
                let is_new = before.is_none_or(|before| !Arc::ptr_eq(before, columns));
                before = Some(columns);
                is_new && columns.iter().any(|own| column.is(own))
            })
        };
        let kinds: Vec<Lacking> = self
            .columns
            .iter()
            .map(|column| match &column.type_name {
                Some(type_name) if is_told(column) || !is_held(column) => {
                    Lacking::Told(Box::new(told_column(&column.name, type_name)))
                }
                _ if column.is_struct => Lacking::Nowhere,
                _ => Lacking::Null,
            })
            .collect();
        let told = kinds.iter().filter_map(|kind| match kind {
            Lacking::Told(column) => Some(column.as_ref().clone()),
            _ => None,
        });
        let columns: Vec<Column> = told.collect();
        let values_of = |of: &HashMap<String, Value>| {
            columns.iter().map(|column| of.get(&column.name).cloned().unwrap_or(Value::Null)).collect()
        };
        let values = self.values.iter().map(values_of).collect();
        let mut made: HashMap<*const Column, Renamed> = HashMap::new();
        let applied = found.iter().map(|file| {
            let known = made
                .entry(file.summary.columns.as_ptr())
                .or_insert_with(|| self.renamed(&file.summary.columns, &kinds));
            let summary = with_columns(&file.summary, &known.0, &known.1);
            FoundFile { status: file.status.clone(), summary, was_known: file.was_known }
        });
        Ok((applied.collect(), Told { columns, values }))
    }

    /// The table's columns in files of these columns, and where each of the files' columns stands among them.
    fn renamed(&self, own: &[Column], kinds: &[Lacking]) -> Renamed {
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut places = vec![None; own.len()];
        for (column, lacking) in self.columns.iter().zip(kinds) {
            let before = columns.len();
            for (place, held) in own.iter().enumerate().filter(|(_, held)| column.is(held)) {
                places[place] = Some(columns.len());
                columns.push(Column { name: column.name.clone(), ..held.clone() });
            }
            if columns.len() == before {
                match lacking {
                    Lacking::Told(told) => columns.push(told.as_ref().clone()),
                    Lacking::Null => columns.push(null_column(&column.name)),
                    Lacking::Nowhere => {}
                }
            }
        }
        (columns.into(), places)
    }
}

/// What stands for a column in files that lack it.
enum Lacking {
    /// The value that the table tells.
    Told(Box<Column>),
    /// Nulls.
    Null,
    /// Nothing.
    Nowhere,
}

impl TableColumn {
    /// Whether a column of a file is this one.
    fn is(&self, own: &Column) -> bool {
        self.names_in_files.contains(&own.name) && (own.kind == Kind::Mask) == self.is_struct
    }
}

fn with_columns(summary: &Summary, columns: &Arc<[Column]>, places: &[Option<usize>]) -> Summary {
    let place = |old: usize| places.get(old).copied().flatten();
    let mut extents: Vec<_> =
        summary.extents.iter().filter_map(|&(old, extent)| Some((place(old)?, extent))).collect();
    extents.sort_unstable_by_key(|&(column, _)| column);
    let large_pages = summary.large_pages.iter().filter_map(|&(old, bytes)| Some((place(old)?, bytes)));
    let nulls = summary.nulls.iter().filter_map(|&(old, count)| Some((place(old)?, count)));
    let (large_pages, nulls) = (large_pages.collect(), nulls.collect());
    Summary { columns: Arc::clone(columns), extents, large_pages, nulls, ..summary.clone() }
}

fn null_column(name: &str) -> Column {
    Column { dtype: None, stored: Stored::Nothing, ..told_column(name, "null") }
}

/// A column of a type, whose values the table tells. A type that can't be told has no dtype.
fn told_column(name: &str, type_name: &str) -> Column {
    let is_counted = type_name == "date[day]" || type_name.starts_with("timestamp[");
    let numbers =
        [Dtype::Bool, Dtype::Int8, Dtype::Int16, Dtype::Int32, Dtype::Int64, Dtype::Float32, Dtype::Float64];
    let (kind, dtype) = match type_name {
        "string" => (Kind::String, Some(Dtype::Uint8)),
        "binary" => (Kind::Binary, Some(Dtype::Uint8)),
        _ if is_counted => (Kind::Scalar, Some(Dtype::Int64)),
        _ => (Kind::Scalar, numbers.into_iter().find(|dtype| dtype.name() == type_name)),
    };
    Column {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        kind,
        dtype,
        size: None,
        lists: 0,
        sizes: Vec::new(),
        unit: is_counted.then(|| type_name.to_owned()),
        stored: Stored::Path,
        level: 0,
        element: 0,
        leaf: 0,
        shaping: Shaping::None,
        separator: None,
        vocabulary: None,
    }
}
