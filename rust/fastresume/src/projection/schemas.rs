//! A column of all files as one: the type in which it is delivered.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::{Error, Remedy, Result, plural, shown};
use crate::projection::fill::Fill;
use crate::projection::patterns::is_meant;
use crate::projection::request::{ColumnRules, Decimals, Policy};
use crate::schema::columns::{Column, Dtype, Kind, Stored};

/// The columns of the files of each schema, by their names.
pub struct Schemas<'a> {
    each: Vec<(&'a [Column], &'a Path)>,
    places: Vec<HashMap<&'a str, usize>>,
    /// Of each schema, the names that two columns have.
    twice: Vec<HashSet<&'a str>>,
}

impl<'a> Schemas<'a> {
    /// Of each schema the columns, and the path of a file that has it.
    ///
    /// # Errors
    /// `Argument` if there are no files.
    pub fn new(each: Vec<(&'a [Column], &'a Path)>) -> Result<Self> {
        if each.is_empty() {
            return Err(Error::Argument("the dataset has no files".into()));
        }
        let places = each.iter().map(|(columns, _)| places(columns)).collect();
        let twice = each.iter().map(|(columns, _)| named_twice(columns)).collect();
        Ok(Self { each, places, twice })
    }

    /// The first file.
    #[must_use]
    pub fn first_file(&self) -> &'a Path {
        self.each.first().map_or(Path::new(""), |(_, file)| file)
    }

    /// How many schemas there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.each.len()
    }

    /// The names of the columns, in the order of the first schemas that have them; of structs, too, if asked.
    #[must_use]
    pub fn names(&self, are_structs: bool) -> Vec<&'a str> {
        let mut seen = HashSet::new();
        let all = self.each.iter().flat_map(|(columns, _)| columns.iter());
        let own = all.filter(|column| (column.kind == Kind::Mask) == are_structs);
        own.map(|column| column.name.as_str()).filter(|name| seen.insert(*name)).collect()
    }

    /// The columns' types, for people, in the order of `names`: each as in the first schema that has it.
    #[must_use]
    pub fn types(&self) -> Vec<Cow<'a, str>> {
        let first = |name: &str| self.columns(name).find_map(|(column, _)| column.map(Column::type_of_rows));
        self.names(false).into_iter().filter_map(first).collect()
    }

    /// The column of a name in each schema, and a file of it.
    fn columns<'b>(
        &'b self,
        name: &str,
    ) -> impl Iterator<Item = (Option<&'a Column>, &'a Path)> + use<'a, 'b> {
        let places: Vec<Option<usize>> = self.places.iter().map(|places| places.get(name).copied()).collect();
        self.each
            .iter()
            .zip(places)
            .map(|((columns, file), place)| (place.map(|place| &columns[place]), *file))
    }

    /// The first column of a name, as it is in its file.
    #[must_use]
    pub fn first_of(&self, name: &str) -> Option<&'a Column> {
        self.columns(name).find_map(|(column, _)| column)
    }

    /// The column that tells whether a struct is there, of each schema.
    ///
    /// # Errors
    /// `Data` if nothing tells it.
    pub fn struct_mask(&self, name: &str) -> Result<Vec<Column>> {
        let masks = self.each.iter().map(|(columns, _)| {
            columns.iter().find(|column| column.kind == Kind::Mask && column.name == name)
        });
        let masks: Vec<Option<&Column>> = masks.collect();
        let there = masks.iter().copied().flatten().next();
        let Some(there) = there.filter(|mask| mask.dtype.is_some()) else {
            let reason = "nothing tells where the struct is null: none of its members can be delivered";
            return Err(Error::data(reason).in_column(name).in_file(self.first_file()));
        };
        let lacking = || Column { stored: Stored::Nothing, given: None, ..there.clone() };
        Ok(masks.into_iter().map(|mask| mask.cloned().unwrap_or_else(lacking)).collect())
    }

    /// The column of a name as it is asked for, of each schema: these differ in how they are stored alone.
    ///
    /// # Errors
    /// `Data` if it is not there, can't be delivered, or has types in two files that no type holds; `Argument` if what is
    /// asked can't be.
    pub fn agree(&self, name: &str, rules: &ColumnRules) -> Result<Vec<Column>> {
        let mut asked = Vec::with_capacity(self.each.len());
        for (twice, (column, file)) in self.twice.iter().zip(self.columns(name)) {
            if twice.contains(name) {
                return Err(Error::data("two columns have this name").in_column(name).in_file(file));
            }
            let column = column.map(|column| as_asked(column, rules)).transpose();
            asked.push((column.map_err(|error| error.in_column(name).in_file(file))?, file));
        }
        self.check_fit(name, rules)?;
        if let Some((error, file)) = undeliverable(&asked) {
            return Err(error.in_column(name).in_file(file));
        }
        joined(&asked, rules).map_err(|(error, file)| error.in_column(name).in_file(file))
    }

    /// Refuses what is for columns of other types.
    fn check_fit(&self, name: &str, rules: &ColumnRules) -> Result<()> {
        let there = || self.columns(name).filter_map(|(column, file)| Some((column?, file)));
        let Some((column, file)) = there().find(|(column, _)| !is_null(column)).or_else(|| there().next())
        else {
            return Ok(());
        };
        let are_decimals = there().any(|(column, _)| matches!(column.stored, Stored::Decimal { .. }));
        let are_lists = there().any(|(column, _)| column.kind == Kind::List && !has_bytes(column));
        let unfit = match rules {
            ColumnRules { decimal: Some(_), .. } if !are_decimals => ("decimal", "decimals"),
            ColumnRules { is_raw: true, .. } if !there().any(|(column, _)| raw_bytes(column).is_some()) => {
                ("raw", "values of one number of bytes (FIXED_LEN_BYTE_ARRAY), and lists of them")
            }
            ColumnRules { fixed: Some(_), .. } if !are_lists => ("fixed", "lists of numbers"),
            _ => return Ok(()),
        };
        let reason =
            format!(".{}() takes no column of type {}: it takes {}", unfit.0, column.type_name, unfit.1);
        Err(Error::data(reason).in_column(name).in_file(file))
    }
}

/// The length of values that the file holds as bytes of one length each, whatever they stand for.
fn raw_bytes(column: &Column) -> Option<usize> {
    match column.stored {
        Stored::Fixed(length) | Stored::Decimal { length: length @ 1.., is_integer: false, .. } => {
            Some(length)
        }
        Stored::Number(Dtype::Float16) => Some(2),
        _ => None,
    }
}

/// Whether values are bytes of one length each.
fn has_bytes(column: &Column) -> bool {
    matches!(column.stored, Stored::Fixed(_))
}

/// Where in a schema each column stands, by its name.
#[must_use]
pub fn places(columns: &[Column]) -> HashMap<&str, usize> {
    let own = columns.iter().enumerate().filter(|(_, column)| column.kind != Kind::Mask);
    own.map(|(place, column)| (column.name.as_str(), place)).collect()
}

/// The names that two columns have.
fn named_twice(columns: &[Column]) -> HashSet<&str> {
    let mut seen = HashSet::new();
    let own = columns.iter().filter(|column| column.kind != Kind::Mask);
    own.map(|column| column.name.as_str()).filter(|name| !seen.insert(*name)).collect()
}

/// The columns that files may lack, and that some do: of each its name, and the first file that has it.
///
/// # Errors
/// `Argument` if a pattern can't be read.
pub fn lacked<'a>(
    schemas: &[(&'a [Column], &'a Path)],
    optional: &[String],
) -> Result<Vec<(&'a str, &'a Path)>> {
    let schemas = Schemas::new(schemas.to_vec())?;
    let mut found = Vec::new();
    for name in schemas.names(false) {
        let lacks = schemas.columns(name).any(|(column, _)| column.is_none());
        let first = schemas.columns(name).find(|(column, _)| column.is_some());
        if let (true, Some((_, file))) = (lacks && is_meant(optional, name)?, first) {
            found.push((name, file));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Why a column can't be delivered, if so, and the file that has it so.
fn undeliverable<'a>(columns: &[(Option<Column>, &'a Path)]) -> Option<(Error, &'a Path)> {
    let there = || columns.iter().filter_map(|(column, file)| Some((column.as_ref()?, *file)));
    let unknown = there().find(|(column, _)| column.dtype.is_none() && !is_null(column));
    let (column, file) = unknown?;
    let Column { name, type_name, .. } = column;
    let error = match column.stored {
        Stored::Decimal { .. } => Error::mended_by(
            Remedy::Decimal,
            format!(
                "the type {type_name} may not fit 64 bits: fr.col('{name}').decimal(\"float64\") in columns= makes \
                 floats of it, \"int64\" integers that are checked, \"bytes\" what the file holds"
            ),
        ),
        _ => Error::data(format!("the type {type_name} is not supported yet")),
    };
    Some((error, file))
}

/// Whether all values of a column are null, so that it may have any type.
fn is_null(column: &Column) -> bool {
    column.stored == Stored::Nothing && column.lists == 0
}

/// Whether a column has lists of nulls, which may be lists of anything.
fn has_null_elements(column: &Column) -> bool {
    column.stored == Stored::Nothing && column.lists == 1
}

/// A column of one schema as it is asked for.
fn as_asked(column: &Column, rules: &ColumnRules) -> Result<Column> {
    let mut asked = column.clone();
    if has_null_elements(column) {
        // Where no file tells what they are, they are delivered as these.
        (asked.stored, asked.dtype) = (Stored::NullElements, Some(Dtype::Int32));
    }
    if let Some(length) = raw_bytes(column).filter(|_| rules.is_raw) {
        (asked.dtype, asked.size, asked.stored) = (Some(Dtype::Uint8), Some(length), Stored::Fixed(length));
        asked.sizes.clear();
        return Ok(asked);
    }
    if let Stored::Decimal { is_integer, length, scale, .. } = column.stored {
        // In lists, its elements are what it would be.
        let kind = column.kind;
        // A cast keeps the number that a decimal is.
        let of_cast = rules.cast.filter(|_| rules.decimal.is_none());
        if of_cast.is_some_and(|cast| !cast.is_float()) && scale > 0 {
            return Err(Error::data(format!(
                "a {} is no integer: .decimal(\"int64\") before the cast makes integers of it, in units of 10^-{scale}",
                column.type_name
            )));
        }
        let of_cast = of_cast.filter(|cast| cast.is_float()).map(|_| Decimals::Floats);
        match rules.decimal.or(of_cast) {
            None => {}
            Some(Decimals::Integers) => {
                (asked.kind, asked.dtype, asked.size) = (kind, Some(Dtype::Int64), None);
            }
            Some(Decimals::Floats) => {
                (asked.kind, asked.dtype, asked.size) = (kind, Some(Dtype::Float64), None);
                asked.unit = None;
            }
            Some(Decimals::Bytes) if is_integer => {
                return Err(Error::data("its decimals are held as integers, which \"int64\" delivers"));
            }
            Some(Decimals::Bytes) if length == 0 => {
                let kind = if column.is_flat() { Kind::Binary } else { Kind::Binaries };
                (asked.kind, asked.dtype, asked.size) = (kind, Some(Dtype::Uint8), None);
            }
            Some(Decimals::Bytes) => {
                (asked.kind, asked.dtype, asked.size) = (kind, Some(Dtype::Uint8), Some(length));
                asked.sizes.clear();
            }
        }
    }
    if let Some(sizes) = rules.fixed.as_ref().filter(|_| column.kind == Kind::List) {
        if !sizes.is_empty() && sizes.len() != column.lists {
            let all: Vec<String> = (1..=column.lists).map(|level| format!("k{level}")).collect();
            let inner = if column.lists == 2 { ", .fixed((None, k2)) that of the inner lists" } else { "" };
            let all = if column.lists == 1 { "k".to_owned() } else { format!("({})", all.join(", ")) };
            return Err(Error::Argument(format!(
                "lengths of {} of lists are given, the column is a {}: .fixed({all}) gives all{inner}",
                plural(sizes.len() as u64, "level"),
                column.type_name,
            )));
        }
        let of_inner: Option<Vec<usize>> = sizes.iter().skip_while(|size| size.is_none()).copied().collect();
        asked.sizes = of_inner.ok_or_else(|| {
            Error::Argument(".fixed() takes None for outer lists alone, before all lengths".into())
        })?;
        if asked.sizes.len() == asked.lists {
            asked = of_one_length(asked)?;
        } else if !asked.sizes.is_empty() {
            asked.size = Some(elements(&asked)?);
        }
    }
    Ok(asked)
}

/// A column of lists as one of as many elements each as its lists have.
fn of_one_length(column: Column) -> Result<Column> {
    Ok(Column { kind: Kind::Scalar, size: Some(elements(&column)?), ..column })
}

/// How many elements the lists of known lengths have together.
fn elements(column: &Column) -> Result<usize> {
    let elements = column.sizes.iter().try_fold(1_usize, |elements, &size| elements.checked_mul(size));
    elements
        .filter(|&elements| elements > 0)
        .ok_or_else(|| Error::Argument(format!("lists of {:?} elements can't be held", column.sizes)))
}

/// The columns of all schemas, delivered in one type; or why there is none, and the file to blame.
fn joined<'a>(
    columns: &[(Option<Column>, &'a Path)],
    rules: &ColumnRules,
) -> std::result::Result<Vec<Column>, (Error, &'a Path)> {
    let mut typed = columns.iter().filter_map(|(column, file)| Some((column.as_ref()?, *file)));
    let is_typed = |column: &Column| !is_null(column) && column.stored != Stored::NullElements;
    let chosen = typed.clone().find(|(column, _)| is_typed(column));
    let chosen = chosen.or_else(|| typed.clone().find(|(column, _)| !is_null(column)));
    let Some((first, first_file)) = chosen.or_else(|| typed.next()) else {
        return Err((Error::data("no file has the column"), Path::new("")));
    };
    let mut whole = first.clone();
    if is_null(first) {
        let (kind, dtype) = of_nulls(rules);
        (whole.kind, whole.dtype) = (kind, Some(dtype));
    }
    for (column, file) in typed.filter(|(column, _)| !is_null(column)) {
        let is_member = column.given.is_some() && whole.lists == column.lists;
        let can_be_of_whole =
            is_member || whole.lists == 1 && (column.size == whole.size || has_bytes(&whole));
        if column.stored == Stored::NullElements && can_be_of_whole {
            continue;
        }
        whole = widened(&whole, column, rules.cast.is_some()).ok_or_else(|| {
            let reason = format!(
                "the column is {}, expected {} as in file '{}'",
                column.type_name,
                first.type_name,
                shown(first_file)
            );
            let error = match remedy(&whole, column, rules) {
                Some((remedy, rule)) => {
                    let name = &column.name;
                    let what = format!("fr.col('{name}'){rule} makes one type of both, each value checked");
                    Error::mended_by(remedy, format!("{reason}; {what}"))
                }
                None => Error::data(format!("{reason}; no rule joins them: write one type to all files")),
            };
            (error, file)
        })?;
    }
    let mut sizes =
        columns.iter().filter_map(|(column, _)| column.as_ref()).filter(|column| !is_null(column));
    let is_of_one = !whole.sizes.is_empty() && sizes.all(|column| column.sizes == whole.sizes);
    if whole.kind == Kind::List && is_of_one && whole.sizes.len() == whole.lists {
        whole = of_one_length(whole).map_err(|error| (error, first_file))?;
    } else if whole.kind == Kind::List {
        if !is_of_one {
            whole.sizes.clear();
        }
        if whole.depth() > 1 {
            whole.kind = Kind::Lists;
        }
    }
    let lacking = columns.iter().find(|(column, _)| column.is_none());
    if let Some((_, file)) = lacking.filter(|_| !rules.is_optional) {
        let reason = format!(
            "the column is missing; file '{}' has it; fr.col('{}').optional().mask_null() allows files without it: \
             their rows are null",
            shown(first_file),
            whole.name
        );
        return Err((Error::mended_by(Remedy::Optional, reason), file));
    }
    // What is cast is read in the type that its file has.
    let own_type = |column: &Column| match column.dtype {
        Some(own) if rules.cast.is_some() && column.stored != Stored::NullElements => Some(own),
        _ => whole.dtype,
    };
    let delivered = columns.iter().map(|(column, _)| match column {
        Some(column) => Column {
            type_name: column.type_name.clone(),
            dtype: own_type(column),
            stored: column.stored,
            level: column.level,
            element: column.element,
            leaf: column.leaf,
            around: column.around.clone(),
            given: column.given,
            ..whole.clone()
        },
        None => Column { stored: Stored::Nothing, given: None, ..whole.clone() },
    });
    Ok(delivered.collect())
}

/// What nulls are delivered as where no file tells what they would be: what is asked for them, or what Parquet holds them
/// as.
fn of_nulls(rules: &ColumnRules) -> (Kind, Dtype) {
    match rules.nulls {
        _ if rules.codes.is_some() || rules.split.is_some() => (Kind::String, Dtype::Uint8),
        Some(Policy::Fill(Fill::Empty)) => (Kind::String, Dtype::Uint8),
        Some(Policy::Fill(Fill::Float(_))) => (Kind::Scalar, Dtype::Float64),
        Some(Policy::Fill(Fill::Truth(_))) => (Kind::Scalar, Dtype::Bool),
        _ => (Kind::Scalar, Dtype::Int32),
    }
}

/// The rule with which numbers of two types become those of one, and how it is written; none if there is none.
fn remedy(one: &Column, other: &Column, rules: &ColumnRules) -> Option<(Remedy, &'static str)> {
    const DECIMAL: (Remedy, &str) = (Remedy::Decimal, ".decimal(\"float64\")");
    const FLOATS: (Remedy, &str) = (Remedy::Floats, ".cast(torch.float64)");
    const INTEGERS: (Remedy, &str) = (Remedy::Integers, ".cast(torch.int64)");
    if rules.cast.is_some() || !are_numbers(one, other) {
        return None;
    }
    let are_decimals = [one, other].map(|column| matches!(column.stored, Stored::Decimal { .. }));
    let are_whole = [one, other]
        .map(|column| column.dtype.is_some_and(|dtype| dtype == Dtype::Bool || dtype.is_integer()));
    let is_hashed = rules.hash.is_some();
    match are_decimals {
        [true, true] => Some(DECIMAL).filter(|_| !is_hashed),
        // A time, say, is no amount that a decimal is.
        [true, false] | [false, true] => {
            let plain = if are_decimals[0] { other } else { one };
            Some(FLOATS).filter(|_| plain.unit.is_none() && !is_hashed)
        }
        [false, false] if joined_unit(one, other).is_none() => None,
        [false, false] if is_hashed || are_whole == [true, true] => Some(INTEGERS),
        [false, false] => Some(FLOATS),
    }
}

/// Whether both columns are numbers, in as many lists.
fn are_numbers(one: &Column, other: &Column) -> bool {
    let is_one = |column: &Column| matches!(column.kind, Kind::Scalar | Kind::List | Kind::Lists);
    is_one(one) && is_one(other) && one.lists == other.lists && one.size == other.size
}

/// Whether integers are durations, as Arrow's schema says.
fn is_duration(column: &Column) -> bool {
    column.unit.as_ref().is_some_and(|unit| unit.starts_with("duration"))
}

/// What both count; none if they count other things.
fn joined_unit<'a>(one: &'a Column, other: &'a Column) -> Option<&'a Option<String>> {
    match (one.stored, other.stored) {
        (
            Stored::Decimal { scale, precision, .. },
            Stored::Decimal { scale: other_scale, precision: other_precision, .. },
        ) if scale == other_scale => Some(if precision < other_precision { &other.unit } else { &one.unit }),
        _ if one.unit == other.unit => Some(&one.unit),
        // Who writes no Arrow schema can't say that integers are durations: they are taken for the same.
        _ if is_duration(one) && other.unit.is_none() => Some(&one.unit),
        _ if is_duration(other) && one.unit.is_none() => Some(&other.unit),
        _ => None,
    }
}

/// The type that holds what both do: the smallest integer or float type, the decimal of one scale. What is
/// counted must be the same.
///
/// What is cast needs no type that holds both.
fn widened(one: &Column, other: &Column, is_cast: bool) -> Option<Column> {
    if one.kind != other.kind || one.size != other.size || one.lists != other.lists {
        return None;
    }
    let unit = joined_unit(one, other)?;
    let joined = one.dtype?.joined(other.dtype?).or(one.dtype.filter(|_| is_cast))?;
    Some(Column { dtype: Some(joined), unit: unit.clone(), ..one.clone() })
}
