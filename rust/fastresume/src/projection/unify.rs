//! The columns of all files as one set: which are asked for, and the type in which each is delivered.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::{Error, Result, shown};
use crate::projection::column_rules::{self, Named, Rule, is_in};
use crate::projection::padding::{End, Pad};
use crate::schema::columns::{Column, Dtype, Kind, Stored};

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

/// What is asked of the columns.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Names, names of structs, or patterns; all columns if none.
    pub columns: Option<Vec<String>>,
    /// What becomes of decimals; integers where the file says that all fit, if nothing is said.
    pub decimals: Vec<Rule<Decimals>>,
    /// Of lists, how many elements each has, and each of the lists in it; nothing where they may differ. What is said of
    /// a list by its file is believed if nothing is said here.
    pub fixed: Vec<Rule<Vec<usize>>>,
    /// Of lists and texts, to which length they are filled up.
    pub pads: Vec<Rule<Pad>>,
    /// Of these, which end is kept of rows that are longer.
    pub truncations: Vec<Rule<End>>,
    /// Names or patterns of columns that files may lack.
    pub optional: Vec<String>,
    /// Names of columns that stand in the paths of the files.
    pub partitions: Vec<String>,
}

/// The columns that are delivered: of each the column of every schema, which differ in how they are stored
/// alone.
pub type Agreed = Vec<Vec<Column>>;

/// The columns that are asked for, in the first file's order, and what becomes of them. Of each schema the
/// columns of a file, and its path.
///
/// # Errors
/// `Data` if a column is not there, can't be delivered, or has types in two files that no type holds; `Argument`
/// if a pattern can't be read, or nothing is asked for.
pub fn agree(schemas: &[(&[Column], &Path)], request: &Request) -> Result<Agreed> {
    let there = all_names(schemas);
    let optional = OptionalColumns::new(&request.optional, &there)?;
    optional.check(&there)?;
    let selected = select(schemas, &there, request, &optional)?;
    let by_name: Vec<_> = schemas.iter().map(|(columns, _)| places(columns)).collect();
    let all = || schemas.iter().zip(&by_name);
    let has = |name: &str, is_one: fn(&Column) -> bool| {
        all().any(|((columns, _), by_name)| by_name.get(name).is_some_and(|&place| is_one(&columns[place])))
    };
    let is_decimal = |column: &Column| matches!(column.stored, Stored::Decimal { .. });
    let type_of = |name: &str| {
        let mut found = all().filter_map(|((columns, _), by_name)| Some(&columns[*by_name.get(name)?]));
        found.next().map_or("null", |column| column.type_name.as_str())
    };
    let typed: Vec<_> = selected.iter().map(|&name| (name, type_of(name))).collect();
    let are_decimals = |name: &str| has(name, is_decimal);
    let decimals = rules_for(("decimals", "decimals"), &request.decimals, &typed, are_decimals)?;
    let is_list = |column: &Column| column.kind == Kind::List;
    let fixed: Vec<Rule<&[usize]>> =
        request.fixed.iter().map(|(key, sizes)| (key.clone(), sizes.as_slice())).collect();
    let fixed = rules_for(("fixed", "lists of numbers"), &fixed, &typed, |name| has(name, is_list))?;
    let mut agreed = Vec::with_capacity(selected.len());
    let mut refused: Vec<Refused<'_>> = Vec::new();
    for ((name, decimals), fixed) in selected.iter().zip(decimals).zip(fixed) {
        let mut of_schemas = Vec::with_capacity(schemas.len());
        for ((columns, file), by_name) in all() {
            let column = by_name.get(name).map(|&place| as_asked(&columns[place], decimals, fixed));
            of_schemas
                .push((column.transpose().map_err(|error| error.in_column(name).in_file(file))?, *file));
        }
        if let Some((reason, file)) = undeliverable(&of_schemas) {
            refused.push(Refused { name, reason, file });
            continue;
        }
        let joined = joined(&of_schemas, optional.means(name));
        agreed.push(joined.map_err(|(error, file)| error.in_column(name).in_file(file))?);
    }
    if refused.is_empty() { Ok(agreed) } else { Err(refusal(&refused)) }
}

/// A column that can't be delivered, why not, and the first file in which it is so.
struct Refused<'a> {
    name: &'a str,
    reason: String,
    file: &'a Path,
}

/// The error that names all columns which can't be delivered, and says how to do without.
fn refusal(refused: &[Refused<'_>]) -> Error {
    let without: Vec<String> = refused.iter().map(|column| format!("'!{}'", column.name)).collect();
    let without = format!("columns=['*', {}]", without.join(", "));
    if let [Refused { name, reason, file }] = refused {
        let reason = format!("{reason}; {without} leaves it out");
        return Error::data(reason).in_column(name).in_file(file);
    }
    let each: Vec<String> =
        refused.iter().map(|column| format!("'{}' ({})", column.name, column.reason)).collect();
    let reason = format!(
        "{} columns can't be delivered: {}; {without} leaves them out",
        refused.len(),
        each.join(", ")
    );
    let file = refused.first().map_or(Path::new(""), |column| column.file);
    Error::data(reason).in_file(file)
}

/// Why a column can't be delivered, if so, and the file that has it so.
fn undeliverable<'a>(columns: &[(Option<Column>, &'a Path)]) -> Option<(String, &'a Path)> {
    let there = || columns.iter().filter_map(|(column, file)| Some((column.as_ref()?, *file)));
    let unknown = there().find(|(column, _)| column.dtype.is_none() && !is_null(column));
    let nulls_alone = || there().next().filter(|_| there().all(|(column, _)| is_null(column)));
    let (column, file) = unknown.or_else(nulls_alone)?;
    let hint = match column.stored {
        Stored::Decimal { .. } if column.kind == Kind::Scalar => {
            "may not fit 64 bits: decimals= says whether it becomes 'int64', 'float64' or 'bytes'"
        }
        _ => "is not supported yet",
    };
    Some((format!("the type {} {hint}", column.type_name), file))
}

/// Whether all values of a column are null, so that it may have any type.
fn is_null(column: &Column) -> bool {
    column.stored == Stored::Nothing && column.kind == Kind::Scalar
}

/// The names of the columns of all schemas, each with the first that has it, in the order of these.
fn all_names<'a>(schemas: &[(&'a [Column], &Path)]) -> Vec<(&'a str, usize)> {
    let mut seen = HashSet::new();
    let of_each = schemas.iter().enumerate().flat_map(|(schema, (columns, _))| {
        let own = columns.iter().filter(|column| column.kind != Kind::Mask);
        own.map(move |column| (column.name.as_str(), schema))
    });
    of_each.filter(|(name, _)| seen.insert(*name)).collect()
}

/// The rule of each column, of which the name and the type are given, where only some can have one. What gave the
/// rules, and what they are for, is said in errors.
fn rules_for<R: Copy>(
    (argument, what): (&str, &str),
    rules: &[Rule<R>],
    columns: &[(&str, &str)],
    can_have: impl Fn(&str) -> bool,
) -> Result<Vec<Option<R>>> {
    let (able, others): (Vec<_>, Vec<_>) = columns.iter().partition(|(name, _)| can_have(name));
    let able: Vec<Named<'_>> = able.into_iter().map(|(name, _)| Named { name, stack: None }).collect();
    column_rules::check_fit(argument, rules, &able, &others, what)?;
    let found = column_rules::resolve(argument, rules, &able)?;
    let by_name: HashMap<&str, Option<R>> = able.iter().map(|column| column.name).zip(found).collect();
    Ok(columns.iter().map(|(name, _)| by_name.get(name).copied().flatten()).collect())
}

/// The columns that files may lack.
struct OptionalColumns<'a> {
    /// Names, names of structs, or patterns; of each, whether a column has it as its name.
    meant: Vec<(&'a str, bool, glob::Pattern)>,
}

impl<'a> OptionalColumns<'a> {
    /// Those that texts mean among the columns that there are.
    fn new(texts: &'a [String], there: &[(&str, usize)]) -> Result<Self> {
        let mut meant = Vec::with_capacity(texts.len());
        for text in texts {
            let is_name = there.iter().any(|(name, _)| name == text);
            meant.push((text.as_str(), is_name, column_rules::pattern(text)?));
        }
        Ok(Self { meant })
    }

    /// Refuses a text that means none of the columns that there are.
    fn check(&self, there: &[(&str, usize)]) -> Result<()> {
        let is_none = |index: &usize| !there.iter().any(|(name, _)| self.is_meant(*index, name));
        match (0..self.meant.len()).find(is_none) {
            Some(index) => {
                let what = format!("'{}' of optional", self.meant[index].0);
                Err(column_rules::no_match(&what, there.iter().map(|(name, _)| *name)))
            }
            None => Ok(()),
        }
    }

    fn is_meant(&self, index: usize, column: &str) -> bool {
        let (text, is_name, pattern) = &self.meant[index];
        column == *text || (!is_name && (is_in(column, text) || pattern.matches(column)))
    }

    fn means(&self, column: &str) -> bool {
        (0..self.meant.len()).any(|index| self.is_meant(index, column))
    }
}

/// Whether `optional=` means a column by its name, that of a struct, or a pattern.
///
/// # Errors
/// `Argument` if a pattern can't be read.
pub fn is_optional(request: &Request, column: &str) -> Result<bool> {
    for text in &request.optional {
        if column == text || is_in(column, text) || column_rules::pattern(text)?.matches(column) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The columns that files may lack, and that some do: of each its name, and the first file that has it.
///
/// # Errors
/// `Argument` if a pattern can't be read.
pub fn lacked<'a>(
    schemas: &[(&'a [Column], &'a Path)],
    optional: &[String],
) -> Result<Vec<(&'a str, &'a Path)>> {
    let there = all_names(schemas);
    let optional = OptionalColumns::new(optional, &there)?;
    let mut found: Vec<_> =
        there.into_iter().map(|(name, _)| name).filter(|name| optional.means(name)).collect();
    found.sort_unstable();
    let has = |columns: &[Column], name: &str| columns.iter().any(|column| column.name == name);
    found.retain(|name| schemas.iter().any(|(columns, _)| !has(columns, name)));
    let first =
        |name: &'a str| schemas.iter().find(|(columns, _)| has(columns, name)).map(|(_, file)| (name, *file));
    Ok(found.into_iter().filter_map(first).collect())
}

/// Where in a schema each column stands, by its name.
#[must_use]
pub fn places(columns: &[Column]) -> HashMap<&str, usize> {
    let own = columns.iter().enumerate().filter(|(_, column)| column.kind != Kind::Mask);
    own.map(|(place, column)| (column.name.as_str(), place)).collect()
}

/// Of the columns that there are, the names of those that are asked for, each once.
fn select<'a>(
    schemas: &[(&[Column], &Path)],
    there: &[(&'a str, usize)],
    request: &Request,
    optional: &OptionalColumns<'_>,
) -> Result<Vec<&'a str>> {
    let names: Vec<&str> = there.iter().map(|&(name, _)| name).collect();
    let picked = match &request.columns {
        Some(patterns) => {
            column_rules::pick(&names, patterns).map_err(|error| error.in_file(schemas[0].1))?
        }
        None => names,
    };
    if picked.is_empty() {
        return Err(Error::Argument("no column is selected".into()).in_file(schemas[0].1));
    }
    let asked: HashSet<&str> = picked.iter().copied().collect();
    for (columns, file) in schemas {
        check_unique(columns, &asked).map_err(|error| error.in_file(file))?;
    }
    let added =
        there.iter().find(|(name, schema)| *schema > 0 && asked.contains(name) && !optional.means(name));
    if let Some((name, schema)) = added {
        let reason = format!("the column is not in file '{}'", shown(schemas[0].1));
        return Err(Error::data(reason).in_column(name).in_file(schemas[*schema].1));
    }
    Ok(picked)
}

/// Refuses a selected name that two columns have.
fn check_unique(columns: &[Column], selected: &HashSet<&str>) -> Result<()> {
    let mut seen = HashSet::new();
    let own = columns.iter().filter(|column| column.kind != Kind::Mask);
    match own.map(|column| column.name.as_str()).find(|name| !seen.insert(*name) && selected.contains(name)) {
        Some(name) => Err(Error::data("two columns have this name").in_column(name)),
        None => Ok(()),
    }
}

/// A column of one schema as it is asked for.
fn as_asked(column: &Column, decimals: Option<Decimals>, fixed: Option<&[usize]>) -> Result<Column> {
    let mut asked = column.clone();
    if let (Some(decimals), Stored::Decimal { is_integer, length, .. }) = (decimals, column.stored) {
        let is_listed = !column.is_flat();
        (asked.kind, asked.dtype, asked.size) = match decimals {
            Decimals::Integers if is_listed => (column.kind, column.dtype, None),
            Decimals::Integers => (Kind::Scalar, Some(Dtype::Int64), None),
            _ if is_listed => return Err(Error::data("decimals in lists are delivered as int64 alone")),
            Decimals::Floats => (Kind::Scalar, Some(Dtype::Float64), None),
            Decimals::Bytes if is_integer => {
                return Err(Error::data("its decimals are held as integers, which 'int64' delivers"));
            }
            Decimals::Bytes if length == 0 => (Kind::Binary, Some(Dtype::Uint8), None),
            Decimals::Bytes => (Kind::Scalar, Some(Dtype::Uint8), Some(length)),
        };
        if decimals == Decimals::Floats {
            asked.unit = None;
        }
    }
    if let Some(sizes) = fixed.filter(|_| column.kind == Kind::List) {
        if !sizes.is_empty() && sizes.len() != column.lists {
            return Err(Error::Argument(format!(
                "fixed gives lengths of {} levels of lists, the column is a {}: fixed={{'{}': {}}} gives all",
                sizes.len(),
                column.type_name,
                column.name,
                match column.lists {
                    1 => "k".to_owned(),
                    levels => format!(
                        "({})",
                        (1..=levels).map(|at| format!("k{at}")).collect::<Vec<_>>().join(", ")
                    ),
                }
            )));
        }
        asked.sizes = sizes.to_vec();
        if !sizes.is_empty() {
            asked = of_one_length(asked)?;
        }
    }
    if asked.kind == Kind::List && asked.lists > 2 && asked.sizes.is_empty() {
        asked.dtype = None;
    }
    Ok(asked)
}

/// A column of lists as one of as many elements each as its lists have.
fn of_one_length(column: Column) -> Result<Column> {
    let elements = column.sizes.iter().try_fold(1_usize, |elements, &size| elements.checked_mul(size));
    let elements = elements
        .filter(|&elements| elements > 0)
        .ok_or_else(|| Error::Argument(format!("lists of {:?} elements can't be held", column.sizes)))?;
    Ok(Column { kind: Kind::Scalar, size: Some(elements), ..column })
}

/// The columns of all schemas, delivered in one type; or why there is none, and the file to blame.
fn joined<'a>(
    columns: &[(Option<Column>, &'a Path)],
    is_optional: bool,
) -> std::result::Result<Vec<Column>, (Error, &'a Path)> {
    let mut typed = columns.iter().filter_map(|(column, file)| Some((column.as_ref()?, *file)));
    let Some((first, first_file)) = typed.clone().find(|(column, _)| !is_null(column)) else {
        let file = typed.next().map_or(Path::new(""), |(_, file)| file);
        return Err((Error::data("the type null is not supported yet"), file));
    };
    let mut whole = first.clone();
    for (column, file) in typed.filter(|(column, _)| !is_null(column)) {
        whole = widened(&whole, column).ok_or_else(|| {
            let reason = format!(
                "the column is {}, expected {} as in file '{}'",
                column.type_name,
                first.type_name,
                shown(first_file)
            );
            (Error::data(reason), file)
        })?;
    }
    let mut sizes =
        columns.iter().filter_map(|(column, _)| column.as_ref()).filter(|column| !is_null(column));
    if whole.kind == Kind::List && !whole.sizes.is_empty() && sizes.all(|column| column.sizes == whole.sizes)
    {
        whole = of_one_length(whole).map_err(|error| (error, first_file))?;
    } else if whole.kind == Kind::List {
        whole.sizes.clear();
        if whole.lists == 2 {
            whole.kind = Kind::Lists;
        } else if whole.lists > 2 {
            let reason = format!("the type {} is not supported yet", first.type_name);
            return Err((Error::data(reason), first_file));
        }
    }
    let lacking = columns.iter().find(|(column, _)| column.is_none());
    if let Some((_, file)) = lacking.filter(|_| !is_optional) {
        let reason = format!("the column is missing; file '{}' has it", shown(first_file));
        return Err((Error::data(reason), file));
    }
    let delivered = columns.iter().map(|(column, _)| match column {
        Some(Column { type_name, stored, level, element, leaf, .. }) => Column {
            type_name: type_name.clone(),
            stored: *stored,
            level: *level,
            element: *element,
            leaf: *leaf,
            ..whole.clone()
        },
        None => Column { stored: Stored::Nothing, ..whole.clone() },
    });
    Ok(delivered.collect())
}

/// Whether integers are durations, as Arrow's schema says.
fn is_duration(column: &Column) -> bool {
    column.unit.as_ref().is_some_and(|unit| unit.starts_with("duration"))
}

/// The type that holds what both do: the smallest integer or float type, the decimal of one scale. What is
/// counted must be the same.
fn widened(one: &Column, other: &Column) -> Option<Column> {
    if one.kind != other.kind || one.size != other.size || one.lists != other.lists {
        return None;
    }
    let unit = match (one.stored, other.stored) {
        (
            Stored::Decimal { scale, precision, .. },
            Stored::Decimal { scale: other_scale, precision: other_precision, .. },
        ) if scale == other_scale => {
            if precision < other_precision {
                &other.unit
            } else {
                &one.unit
            }
        }
        _ if one.unit == other.unit => &one.unit,
        // Who writes no Arrow schema can't say that integers are durations: they are taken for the same.
        _ if is_duration(one) && other.unit.is_none() => &one.unit,
        _ if is_duration(other) && one.unit.is_none() => &other.unit,
        _ => return None,
    };
    Some(Column { dtype: Some(one.dtype?.joined(other.dtype?)?), unit: unit.clone(), ..one.clone() })
}
