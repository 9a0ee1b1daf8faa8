//! The columns of all files as one set: which are asked for, and the type in which each is delivered.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::{Error, Result};
use crate::padding::{End, Pad};
use crate::rules::{self, Named, Rule, is_in};
use crate::schema::{Column, Dtype, Kind, Stored};

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
    let optional = patterns(&request.optional)?;
    let is_optional = |name: &str| means_any(&optional, name);
    let selected = select(schemas, request, &is_optional)?;
    check_optional(&optional, &selected)?;
    let by_name: Vec<_> = schemas.iter().map(|(columns, _)| places(columns)).collect();
    let all = || schemas.iter().zip(&by_name);
    let has = |name: &str, is_one: fn(&Column) -> bool| {
        all().any(|((columns, _), by_name)| by_name.get(name).is_some_and(|&place| is_one(&columns[place])))
    };
    let is_decimal = |column: &Column| matches!(column.stored, Stored::Decimal { .. });
    let decimals = rules_for("decimals", &request.decimals, &selected, |name| has(name, is_decimal))?;
    let is_list = |column: &Column| column.kind == Kind::List;
    let fixed: Vec<Rule<&[usize]>> =
        request.fixed.iter().map(|(key, sizes)| (key.clone(), sizes.as_slice())).collect();
    let fixed = rules_for("fixed", &fixed, &selected, |name| has(name, is_list))?;
    let mut agreed = Vec::with_capacity(selected.len());
    for ((name, decimals), fixed) in selected.iter().zip(decimals).zip(fixed) {
        let mut of_schemas = Vec::with_capacity(schemas.len());
        for ((columns, file), by_name) in all() {
            let column = by_name.get(name).map(|&place| as_asked(&columns[place], decimals, fixed));
            of_schemas
                .push((column.transpose().map_err(|error| error.in_column(name).in_file(file))?, *file));
        }
        let joined = joined(&of_schemas, is_optional(name));
        agreed.push(joined.map_err(|(error, file)| error.in_column(name).in_file(file))?);
    }
    Ok(agreed)
}

/// The rule of each column, where only some can have one.
fn rules_for<R: Copy>(
    argument: &str,
    rules: &[Rule<R>],
    columns: &[&str],
    can_have: impl Fn(&str) -> bool,
) -> Result<Vec<Option<R>>> {
    let able: Vec<Named<'_>> = columns
        .iter()
        .copied()
        .filter(|name| can_have(name))
        .map(|name| Named { name, stack: None })
        .collect();
    let found = rules::resolve(argument, rules, &able)?;
    let by_name: HashMap<&str, Option<R>> = able.iter().map(|column| column.name).zip(found).collect();
    Ok(columns.iter().map(|name| by_name.get(name).copied().flatten()).collect())
}

type Pattern<'a> = (&'a str, glob::Pattern);

fn patterns(texts: &[String]) -> Result<Vec<Pattern<'_>>> {
    texts.iter().map(|text| Ok((text.as_str(), rules::pattern(text)?))).collect()
}

/// Whether `optional=` means a column.
///
/// # Errors
/// `Argument` if a pattern can't be read.
pub fn is_optional(request: &Request, column: &str) -> Result<bool> {
    Ok(means_any(&patterns(&request.optional)?, column))
}

fn means_any(patterns: &[Pattern<'_>], column: &str) -> bool {
    patterns.iter().any(|pattern| is_meant(pattern, column))
}

/// Whether a name, the name of a struct, or a pattern means a column.
fn is_meant((text, pattern): &Pattern<'_>, column: &str) -> bool {
    column == *text || is_in(column, text) || pattern.matches(column)
}

/// Where in a schema each column stands, by its name.
#[must_use]
pub fn places(columns: &[Column]) -> HashMap<&str, usize> {
    let own = columns.iter().enumerate().filter(|(_, column)| column.kind != Kind::Mask);
    own.map(|(place, column)| (column.name.as_str(), place)).collect()
}

/// The names of the columns that are asked for, each once.
fn select<'a>(
    schemas: &[(&'a [Column], &Path)],
    request: &Request,
    is_optional: &impl Fn(&str) -> bool,
) -> Result<Vec<&'a str>> {
    // Those of the first file, and then what others have besides, each with the first file that has it.
    let mut there: Vec<(&str, usize)> = Vec::new();
    let mut seen = HashSet::new();
    for (schema, (columns, _)) in schemas.iter().enumerate() {
        let own = columns.iter().filter(|column| column.kind != Kind::Mask);
        there.extend(
            own.filter(|column| seen.insert(&column.name)).map(|column| (column.name.as_str(), schema)),
        );
    }
    let names: Vec<&str> = there.iter().map(|&(name, _)| name).collect();
    let picked = match &request.columns {
        Some(patterns) => pick(&names, patterns).map_err(|error| error.in_file(schemas[0].1))?,
        None => names,
    };
    if picked.is_empty() {
        return Err(Error::Argument("no column is selected".into()).in_file(schemas[0].1));
    }
    let asked: HashSet<&str> = picked.iter().copied().collect();
    for (columns, file) in schemas {
        check_unique(columns, &asked).map_err(|error| error.in_file(file))?;
    }
    let added = there.iter().find(|(name, schema)| *schema > 0 && asked.contains(name) && !is_optional(name));
    if let Some((name, schema)) = added {
        let reason = format!("the column is not in file '{}'", schemas[0].1.display());
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

/// The columns that names, names of structs and patterns mean, in the order of these, each once.
///
/// # Errors
/// `Data` if one means no column; `Argument` if a pattern can't be read.
pub fn pick<'a>(among: &[&'a str], patterns: &[String]) -> Result<Vec<&'a str>> {
    let mut picked = Vec::new();
    let mut seen = HashSet::new();
    for text in patterns {
        let matching: Vec<&str> = if among.contains(&text.as_str()) {
            among.iter().copied().filter(|name| name == text).take(1).collect()
        } else if among.iter().any(|name| is_in(name, text)) {
            among.iter().copied().filter(|name| is_in(name, text)).collect()
        } else {
            let pattern = rules::pattern(text)?;
            among.iter().copied().filter(|name| pattern.matches(name)).collect()
        };
        if matching.is_empty() {
            return Err(rules::no_match(&format!("'{text}'"), among.iter().copied()));
        }
        picked.extend(matching.into_iter().filter(|name| seen.insert(*name)));
    }
    Ok(picked)
}

/// Refuses a name of columns that files may lack which means none.
fn check_optional(optional: &[Pattern<'_>], selected: &[&str]) -> Result<()> {
    match optional.iter().find(|pattern| !selected.iter().any(|name| is_meant(pattern, name))) {
        Some((text, _)) => Err(Error::data(format!("no column matches '{text}' of optional"))),
        None => Ok(()),
    }
}

/// A column of one schema as it is asked for.
fn as_asked(column: &Column, decimals: Option<Decimals>, fixed: Option<&[usize]>) -> Result<Column> {
    let mut asked = column.clone();
    if let (Some(decimals), Stored::Decimal { is_integer, length, .. }) = (decimals, column.stored) {
        let is_listed = column.kind == Kind::List;
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
                "fixed says how long lists of {} levels are, the column is a {}",
                sizes.len(),
                column.type_name
            )));
        }
        asked.sizes = sizes.to_vec();
        if !sizes.is_empty() {
            asked = of_one_length(asked)?;
        }
    }
    if asked.kind == Kind::List && asked.lists > 1 && asked.sizes.is_empty() {
        asked.dtype = None;
    }
    if asked.dtype.is_some() || asked.stored == Stored::Nothing {
        return Ok(asked);
    }
    let hint = match column.stored {
        Stored::Decimal { .. } if column.kind == Kind::Scalar => {
            "may not fit 64 bits: decimals= says whether it becomes 'int64', 'float64' or 'bytes'"
        }
        _ => "is not supported yet",
    };
    Err(Error::data(format!("the type {} {hint}", column.type_name)))
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
    // A column of nulls alone may have any type.
    let is_null = |column: &Column| column.stored == Stored::Nothing && column.kind == Kind::Scalar;
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
                first_file.display()
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
        if whole.lists > 1 {
            let reason = format!("the type {} is not supported yet", first.type_name);
            return Err((Error::data(reason), first_file));
        }
    }
    let lacking = columns.iter().find(|(column, _)| column.is_none());
    if let Some((_, file)) = lacking.filter(|_| !is_optional) {
        let reason = format!("the column is missing; file '{}' has it", first_file.display());
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
        _ => return None,
    };
    Some(Column { dtype: Some(one.dtype?.joined(other.dtype?)?), unit: unit.clone(), ..one.clone() })
}
