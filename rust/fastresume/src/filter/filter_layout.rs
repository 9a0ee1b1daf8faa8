//! What a filter reads: the values of some columns, and the validity of others.

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, shown};
use crate::projection::field::Field;
use crate::projection::layout::Layout;
use crate::projection::patterns::{is_in, is_meant, no_match};
use crate::projection::request::{ColumnRules, Entry, Expression, Policy, Request};
use crate::schema::columns::{Column, Dtype, Kind, Stored};
use crate::schema::nulls::Nulls;

/// What a filter asks of columns.
#[derive(Debug, Clone, Default)]
pub struct FilterColumns {
    /// Columns that are compared with values.
    pub compared: Vec<String>,
    /// Columns of any type, and structs, of which it is asked whether they are there.
    pub present: Vec<String>,
    /// Names or patterns of columns that files may lack.
    pub optional: Vec<String>,
    /// Columns whose values stand in the paths of the files.
    pub of_paths: Vec<String>,
}

/// The layout of the columns that are compared, with masks for their nulls, and then of each of the others whether it is
/// there.
///
/// # Errors
/// As for [`Layout::resolve`]; `Data` also if one of `asked` is nowhere, or is missing in a file and not optional.
pub fn layout(manifest: &Manifest, asked: &FilterColumns) -> Result<Layout> {
    for name in asked.compared.iter().chain(&asked.present) {
        check_name(manifest, name)?;
    }
    let (mut fields, mut columns) = (Vec::new(), vec![Vec::new(); manifest.schemas().count()]);
    if !asked.compared.is_empty() {
        let entries: Result<Vec<Entry>> = asked.compared.iter().map(|name| entry(name, asked)).collect();
        let request = Request { columns: Some(entries?), nulls: Policy::Mask };
        let values = Layout::resolve(manifest, &request)?;
        fields.extend_from_slice(values.fields());
        columns = (0..columns.len()).map(|schema| values.columns(schema).to_vec()).collect();
    }
    for name in &asked.present {
        let is_optional = is_meant(&asked.optional, name)?;
        for (of_schema, column) in columns.iter_mut().zip(presence(manifest, is_optional, name)?) {
            of_schema.push(column);
        }
        let presence = Field::new(name.clone(), Dtype::Bool, Kind::Mask, vec![name.clone()]);
        fields.push(Field { nulls: vec![Nulls::Filled(0)], ..presence });
    }
    Ok(Layout::new(manifest, fields, columns))
}

/// A column that is compared.
fn entry(name: &String, asked: &FilterColumns) -> Result<Entry> {
    let rules = ColumnRules {
        is_optional: is_meant(&asked.optional, name)?,
        is_of_path: asked.of_paths.contains(name),
        ..ColumnRules::default()
    };
    let text = format!("fr.col('{name}') of the filter");
    Ok(Entry::Made(Expression { names: vec![name.clone()], rules, alias: None, text }))
}

/// What masks and lengths are called behind the name of their column.
const NO_COLUMNS: [(&str, &str, &str); 2] = [
    ("_valid", "mask", "is_null() asks where the column is null"),
    ("_length", "lengths", "a filter asks of what the files hold"),
];

/// Refuses the name of a mask or of lengths: batches have these, files do not.
fn check_name(manifest: &Manifest, name: &str) -> Result<()> {
    let has = |name: &str| {
        manifest
            .schemas()
            .any(|(columns, _)| columns.iter().any(|column| column.name == name || is_in(&column.name, name)))
    };
    for (end, what, remedy) in NO_COLUMNS {
        if let Some(of) = name.strip_suffix(end).filter(|of| !has(name) && has(of)) {
            let reason = format!("'{name}' is no column, but the {what} of '{of}' in batches: {remedy}");
            return Err(Error::data(reason));
        }
    }
    Ok(())
}

/// The name of the list or map of structs that a column is in, if that is in no other list. The structs
/// around it have a column of their own.
fn list_around<'a>(columns: &[Column], column: &'a Column) -> Option<&'a str> {
    let is_struct = |name: &str| columns.iter().any(|one| one.kind == Kind::Mask && one.name == name);
    let dots = column.name.match_indices('.').map(|(dot, _)| &column.name[..dot]);
    dots.filter(|_| column.lists > 0).find(|name| !is_struct(name))
}

/// Of each schema, the column that tells where another is there.
fn presence(manifest: &Manifest, is_optional: bool, name: &str) -> Result<Vec<Column>> {
    let found: Vec<_> = manifest
        .schemas()
        .map(|(columns, file)| {
            let named = || columns.iter().filter(|column| column.name == name);
            // A list of structs, or a map, is valid where the lists of its fields are.
            let in_list = || columns.iter().find(|column| list_around(columns, column) == Some(name));
            (named().find(|column| column.kind != Kind::Mask).or(named().next()).or_else(in_list), file)
        })
        .collect();
    let Some((there, first_file)) = found.iter().find_map(|(column, file)| Some(((*column)?, *file))) else {
        let columns = manifest.columns(0).iter().filter(|column| column.kind != Kind::Mask);
        let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        return Err(no_match(&[name], &names));
    };
    let mut presence = Vec::with_capacity(found.len());
    for (column, file) in &found {
        let mask = |column: &Column| Column {
            kind: Kind::Mask,
            dtype: Some(Dtype::Bool),
            size: None,
            sizes: Vec::new(),
            unit: None,
            ..column.clone()
        };
        presence.push(match column {
            Some(column) if column.kind == Kind::Mask && column.dtype.is_none() => {
                let reason = "nothing tells where the struct is null: none of its members can be delivered";
                return Err(Error::data(reason).in_column(name).in_file(file));
            }
            Some(column) => mask(column),
            None if is_optional => Column { stored: Stored::Nothing, given: None, ..mask(there) },
            None => {
                let reason = format!("the column is missing; file '{}' has it", shown(first_file));
                return Err(Error::data(reason).in_column(name).in_file(file));
            }
        });
    }
    Ok(presence)
}
