//! Columns to tensors: which columns make which tensor.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::column::Nulls;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::policy::{self, NullPolicy, Subject};
use crate::schema::{Column, Dtype, Kind};

/// One tensor of a batch: `[rows]`, or `[rows, k]` where k columns are stacked; or a jagged one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key of the tensor.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// What its rows are.
    pub kind: Kind,
    /// The columns of the files that it holds.
    pub columns: Vec<String>,
    /// Whether it is a matrix; a stack of one column is one, too.
    pub is_stacked: bool,
    /// What becomes of the nulls of each column.
    pub nulls: Vec<Nulls>,
}

impl Field {
    /// Bytes of one row of values, where rows have one length.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.dtype.width() * self.columns.len()
    }

    /// Whether a mask tells which values are valid.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.nulls.contains(&Nulls::Masked)
    }

    /// Bytes of one row of the mask.
    #[must_use]
    pub fn mask_bytes(&self) -> usize {
        if self.is_masked() { self.columns.len() } else { 0 }
    }
}

/// Which columns are read, and where in a batch each goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Field>,
    /// For each of the manifest's schemas, the place of each field's columns in it, field after field.
    places: Vec<Vec<usize>>,
    row_bytes: usize,
}

/// What the user asked to be stacked: a name, and the names or patterns of its columns.
pub type Stack = (String, Vec<String>);

impl Layout {
    /// The layout of the columns that `columns` names (names or globs; all where none are named), with
    /// those of each stack in one matrix behind the others.
    ///
    /// # Errors
    /// `Data` if a column is not there, can't be delivered, or differs between files, and if stacked
    /// columns differ in type; `Argument` if the request contradicts itself, or a fill value does not fit.
    pub fn resolve(
        manifest: &Manifest,
        columns: Option<&[String]>,
        stacks: &[Stack],
        nulls: &[NullPolicy],
    ) -> Result<Self> {
        let mut schemas = manifest.schemas();
        let Some((first, first_file)) = schemas.next() else {
            return Err(Error::Argument("the dataset has no files".into()));
        };
        let selected = select(first, columns).map_err(|error| error.in_file(first_file))?;
        for (other, file) in schemas {
            check_same(first_file, &selected, other, columns).map_err(|error| error.in_file(file))?;
        }
        let mut fields = stacked(&selected, stacks).map_err(|error| error.in_file(first_file))?;
        set_nulls(&mut fields, nulls)?;
        check_names(&fields)?;
        let places = manifest.schemas().map(|(columns, _)| {
            let place_of = places(columns);
            let names = fields.iter().flat_map(|field| &field.columns);
            names.filter_map(|name| place_of.get(name.as_str()).copied()).collect()
        });
        let places: Vec<Vec<usize>> = places.collect();
        let row_bytes = row_bytes(manifest, &fields, &places);
        Ok(Self { fields, places, row_bytes })
    }

    /// The tensors of a batch, in its order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Where in a schema each field's columns stand, field after field.
    #[must_use]
    pub fn columns(&self, schema: usize) -> &[usize] {
        &self.places[schema]
    }

    /// Bytes of one row over all tensors; of jagged ones, what the footers lead to expect.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }
}

fn set_nulls(fields: &mut [Field], nulls: &[NullPolicy]) -> Result<()> {
    let subjects = fields.iter().flat_map(|field| {
        let stack = field.is_stacked.then_some(field.name.as_str());
        let (dtype, kind) = (field.dtype, field.kind);
        field.columns.iter().map(move |name| Subject { name, stack, dtype, kind })
    });
    let mut found = policy::resolve(nulls, &subjects.collect::<Vec<_>>())?.into_iter();
    for field in fields {
        field.nulls = found.by_ref().take(field.columns.len()).collect();
        let masked = field.nulls.iter().filter(|nulls| **nulls == Nulls::Masked).count();
        if field.is_stacked && masked > 0 && masked < field.columns.len() {
            return Err(Error::Argument(format!(
                "the nulls of {masked} of the {} columns of the stack '{}' are masked: mask all of them, or none",
                field.columns.len(),
                field.name
            )));
        }
    }
    Ok(())
}

fn row_bytes(manifest: &Manifest, fields: &[Field], places: &[Vec<usize>]) -> usize {
    let mut bytes = 0;
    let mut column = 0;
    for field in fields {
        let of_schema = |(schema, places): (usize, &Vec<usize>)| {
            places.get(column).map(|&place| manifest.jagged_row_bytes(schema, place))
        };
        bytes += if field.kind.is_jagged() {
            let expected = places.iter().enumerate().filter_map(of_schema).max().unwrap_or(0);
            usize::try_from(expected).unwrap_or(usize::MAX >> 8).saturating_add(size_of::<u64>())
        } else {
            field.row_bytes()
        };
        bytes = bytes.saturating_add(field.mask_bytes());
        column += field.columns.len();
    }
    bytes
}

/// Where in a schema each column stands, by its name.
fn places(columns: &[Column]) -> HashMap<&str, usize> {
    columns.iter().enumerate().map(|(place, column)| (column.name.as_str(), place)).collect()
}

/// The tensors of the selected columns, those of each stack in one matrix behind the others.
fn stacked(selected: &[&Column], stacks: &[Stack]) -> Result<Vec<Field>> {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    let mut matrices = Vec::with_capacity(stacks.len());
    for (name, patterns) in stacks {
        let members = pick(&selected.iter().copied(), patterns)
            .map_err(|error| Error::data(format!("in the stack '{name}': {error}")))?;
        for member in &members {
            if let Some(other) = taken.insert(&member.name, name) {
                return Err(Error::Argument(format!(
                    "the column '{}' is in the stacks '{other}' and '{name}'",
                    member.name
                )));
            }
        }
        if let Some(jagged) = members.iter().find(|member| member.kind.is_jagged()) {
            let reason =
                format!("a {} can't be stacked, as in '{name}': its rows differ in length", jagged.type_name);
            return Err(Error::data(reason).in_column(&jagged.name));
        }
        let Some((dtype, unlike)) = members.first().map(|first| {
            (
                deliverable(first),
                members.iter().find(|member| member.dtype != first.dtype).map(|other| (*first, *other)),
            )
        }) else {
            return Err(Error::Argument(format!("the stack '{name}' names no column")));
        };
        if let Some((first, other)) = unlike {
            return Err(Error::data(format!(
                "the stack '{name}' holds columns of more than one type: '{}' is {}, '{}' is {}",
                first.name, first.type_name, other.name, other.type_name
            )));
        }
        matrices.push(Field {
            name: name.clone(),
            dtype: dtype?,
            kind: Kind::Scalar,
            columns: members.iter().map(|member| member.name.clone()).collect(),
            is_stacked: true,
            nulls: Vec::new(),
        });
    }
    let mut fields = Vec::with_capacity(selected.len());
    for column in selected.iter().filter(|column| !taken.contains_key(column.name.as_str())) {
        fields.push(Field {
            name: column.name.clone(),
            dtype: deliverable(column)?,
            kind: column.kind,
            columns: vec![column.name.clone()],
            is_stacked: false,
            nulls: Vec::new(),
        });
    }
    fields.append(&mut matrices);
    Ok(fields)
}

fn check_names(fields: &[Field]) -> Result<()> {
    let masked = fields.iter().filter(|field| field.is_masked() && !field.kind.is_jagged());
    let masks: HashSet<String> = masked.map(|field| format!("{}_valid", field.name)).collect();
    let mut names = HashSet::new();
    for field in fields {
        if !names.insert(&field.name) {
            return Err(Error::Argument(format!(
                "the name '{}' stands for two tensors of a batch",
                field.name
            )));
        }
        if masks.contains(&field.name) {
            return Err(Error::Argument(format!(
                "the name '{}' stands for a column and for the mask of another one",
                field.name
            )));
        }
    }
    Ok(())
}

/// The columns of the first file that are asked for.
fn select<'a>(first: &'a [Column], columns: Option<&[String]>) -> Result<Vec<&'a Column>> {
    let selected = match columns {
        Some(patterns) => pick(&first.iter(), patterns)?,
        None => first.iter().collect(),
    };
    if selected.is_empty() {
        return Err(Error::Argument("no column is selected".into()));
    }
    let refused: Vec<&&Column> = selected.iter().filter(|column| column.dtype.is_none()).collect();
    if let [column, others @ ..] = refused.as_slice() {
        let others: Vec<String> =
            others.iter().map(|other| format!("'{}' ({})", other.name, other.type_name)).collect();
        let more = if others.is_empty() { String::new() } else { format!("; nor are {}", others.join(", ")) };
        let reason = format!("the type {} is not supported yet{more}", column.type_name);
        return Err(Error::data(reason).in_column(&column.name));
    }
    check_unique(first, &selected)?;
    Ok(selected)
}

/// Refuses a selected name that two columns have.
fn check_unique(columns: &[Column], selected: &[&Column]) -> Result<()> {
    let mut seen = HashSet::new();
    let twice: HashSet<&str> =
        columns.iter().map(|column| column.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    match selected.iter().find(|column| twice.contains(column.name.as_str())) {
        Some(column) => Err(Error::data("two columns have this name").in_column(&column.name)),
        None => Ok(()),
    }
}

/// The columns that names and patterns mean, in the order of the patterns, each once.
fn pick<'a>(
    among: &(impl Iterator<Item = &'a Column> + Clone),
    patterns: &[String],
) -> Result<Vec<&'a Column>> {
    let mut picked: Vec<&Column> = Vec::new();
    let mut seen = HashSet::new();
    for pattern in patterns {
        let mut found = among.clone().filter(|column| column.name == *pattern).peekable();
        let matching: Vec<&Column> = if found.peek().is_some() {
            found.collect()
        } else {
            let pattern = glob::Pattern::new(pattern).map_err(|cause| {
                Error::Argument(format!("the pattern '{pattern}' can't be read: {cause}"))
            })?;
            among.clone().filter(|column| pattern.matches(&column.name)).collect()
        };
        if matching.is_empty() {
            let names: Vec<&str> = among.clone().map(|column| column.name.as_str()).take(20).collect();
            let more = if among.clone().nth(names.len()).is_some() { ", ..." } else { "" };
            return Err(Error::data(format!(
                "no column matches '{pattern}'; there are: {}{more}",
                names.join(", ")
            )));
        }
        for column in matching {
            if seen.insert(std::ptr::from_ref(column)) {
                picked.push(column);
            }
        }
    }
    Ok(picked)
}

fn deliverable(column: &Column) -> Result<Dtype> {
    column.dtype.ok_or_else(|| {
        Error::data(format!("the type {} is not supported yet", column.type_name)).in_column(&column.name)
    })
}

/// Refuses a file whose columns differ from the first one's where it matters.
fn check_same(
    first_file: &Path,
    selected: &[&Column],
    other: &[Column],
    columns: Option<&[String]>,
) -> Result<()> {
    let place_of = places(other);
    for expected in selected {
        let Some(column) = place_of.get(expected.name.as_str()).map(|&place| &other[place]) else {
            let reason = format!("the column is missing; file '{}' has it", first_file.display());
            return Err(Error::data(reason).in_column(&expected.name));
        };
        if column.type_name != expected.type_name {
            let reason = format!(
                "the column is {}, expected {} as in file '{}'",
                column.type_name,
                expected.type_name,
                first_file.display()
            );
            return Err(Error::data(reason).in_column(&expected.name));
        }
    }
    let asked = match columns {
        Some(patterns) => pick(&other.iter(), patterns)?,
        None => other.iter().collect(),
    };
    check_unique(other, &asked)?;
    let expected: HashSet<&str> = selected.iter().map(|column| column.name.as_str()).collect();
    match asked.iter().find(|column| !expected.contains(column.name.as_str())) {
        Some(extra) => {
            let reason = format!("the column is not in file '{}'", first_file.display());
            Err(Error::data(reason).in_column(&extra.name))
        }
        None => Ok(()),
    }
}
