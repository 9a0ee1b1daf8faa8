//! What the user said of the types and names of tensors: casts, buckets, names.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::projection::column_rules::{self, Named, Rule};
use crate::schema::buckets::Buckets;
use crate::schema::columns::{Column, Dtype, Kind, Stored};
use crate::schema::shaping::Shaping;

/// What each argument is for, as errors say it.
const HASHED: &str = "texts, bytes, integers and lists of them";
const CAST: &str = "numbers and lists of them";
const CODED: &str = "texts, bytes and lists of them";

/// What is asked of the tensors.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    /// The types that numbers are cast to.
    pub casts: Vec<Rule<Dtype>>,
    /// The buckets that texts, bytes and integers are put into.
    pub hashes: Vec<Rule<Buckets>>,
    /// The columns of texts and bytes of which codes are made.
    pub codes: Vec<Rule<()>>,
    /// Of names of tensors, those that they are to have instead.
    pub names: Vec<(String, String)>,
}

/// A tensor that is to be named.
#[derive(Debug)]
pub struct Tensor<'a> {
    /// The name that it would have, and then has.
    pub name: &'a mut String,
    /// What it is, in a word.
    pub what: &'static str,
    /// Whether a mask of its own follows, whose name is made of its name.
    pub is_masked: bool,
    /// The name that it gets, if not this one.
    pub new: Option<String>,
}

impl Shapes {
    /// Makes of the columns of all schemas (one after another, each of all schemas) what is asked; `stacks` tells
    /// the stack that each is in.
    ///
    /// # Errors
    /// `Data` if a column that is named can't become what is asked, or a name or pattern means none; `Argument`
    /// if a pattern can't be read, or a column is asked to become two things.
    pub fn apply(&self, columns: &mut [Vec<Column>], stacks: &HashMap<String, &str>) -> Result<()> {
        let hashes = found(("hash", HASHED), &self.hashes, columns, stacks, can_be_hashed)?;
        let casts = found(("cast", CAST), &self.casts, columns, stacks, can_be_cast)?;
        let codes = found(("dictionary", CODED), &self.codes, columns, stacks, can_be_coded)?;
        for (((of_schemas, hash), cast), code) in columns.iter_mut().zip(hashes).zip(casts).zip(codes) {
            if let (Some(()), true, Some(column)) = (code, hash.is_some(), of_schemas.first()) {
                return Err(Error::Argument(format!(
                    "dictionary= and hash= both make numbers of the column '{}'",
                    column.name
                )));
            }
            let are_bytes = are_bytes(of_schemas);
            if let (Some(_), Some(dtype), Some(column)) = (hash, cast, of_schemas.first())
                && dtype != Dtype::Int64
            {
                return Err(Error::Argument(format!(
                    "hash= makes int64 of the column '{}', cast= says {}",
                    column.name,
                    dtype.name()
                )));
            }
            for column in of_schemas {
                let Some(unshaped) = column.dtype else { continue };
                if code.is_some() {
                    let is_text = matches!(column.kind, Kind::String | Kind::Strings);
                    column.shaping = Shaping::Coded(unshaped, is_text);
                    column.dtype = Some(Dtype::Int64);
                    column.kind = if column.is_flat() { Kind::Scalar } else { Kind::List };
                }
                if let Some(buckets) = hash {
                    column.shaping = Shaping::Hashed(unshaped, buckets);
                    column.unit = Some(buckets.unit());
                    column.dtype = Some(Dtype::Int64);
                    if are_bytes {
                        let kind = if column.is_flat() { Kind::Scalar } else { Kind::List };
                        (column.kind, column.size) = (kind, None);
                    }
                } else if let Some(dtype) = cast.filter(|dtype| *dtype != unshaped) {
                    column.shaping = Shaping::Cast(unshaped);
                    column.dtype = Some(dtype);
                }
            }
        }
        Ok(())
    }

    /// Refuses an old name of what is no tensor: of a column in a stack, or of a struct.
    ///
    /// # Errors
    /// `Argument`, naming the tensors.
    pub fn check_names(&self, selected: &[&Column], stacks: &HashMap<String, &str>) -> Result<()> {
        for (old, _) in &self.names {
            if let Some(stack) = stacks.get(old) {
                return Err(Error::Argument(format!(
                    "rename names the column '{old}', which is in the stack '{stack}': tensors are renamed"
                )));
            }
            let names = || selected.iter().map(|column| column.name.as_str());
            let members: Vec<&str> = names().filter(|name| column_rules::is_in(name, old)).collect();
            if !members.is_empty() && names().all(|name| name != old) {
                let members = members.join(", ");
                return Err(Error::Argument(format!(
                    "rename names '{old}', whose members are tensors that are renamed one by one: {members}"
                )));
            }
        }
        Ok(())
    }

    /// The new name of an old one, if it is asked for.
    #[must_use]
    pub fn new_name(&self, old: &str) -> Option<&String> {
        self.names.iter().find(|(name, _)| name == old).map(|(_, new)| new)
    }

    /// Gives tensors their new names, all at once.
    ///
    /// # Errors
    /// `Data` if there is no tensor of an old name; `Argument` if two tensors have one name.
    pub fn name_all(&self, tensors: Vec<Tensor<'_>>) -> Result<()> {
        for (old, _) in &self.names {
            if !tensors.iter().any(|tensor| tensor.name == old) {
                let there = tensors.iter().map(|tensor| tensor.name.as_str());
                return Err(column_rules::no_match(&format!("'{old}' of rename"), there));
            }
        }
        let mut taken: HashMap<String, String> = HashMap::new();
        let mut take = |name: String, what: String| {
            if let Some(other) = taken.get(&name) {
                return Err(Error::Argument(format!(
                    "the name '{name}' stands for two tensors: {other} and {what}"
                )));
            }
            taken.insert(name, what);
            Ok(())
        };
        let mut masks = Vec::new();
        for Tensor { name, what, is_masked, new } in tensors {
            let old = name.clone();
            if let Some(new) = new {
                *name = new;
            }
            if is_masked {
                masks.push((format!("{name}_valid"), format!("the mask of '{old}'")));
            }
            take(name.clone(), format!("the {what} '{old}'"))?;
        }
        masks.into_iter().try_for_each(|(name, what)| take(name, what))
    }
}

/// The rule of each column, where only some can have one.
fn found<R: Copy>(
    (argument, what): (&str, &str),
    rules: &[Rule<R>],
    columns: &[Vec<Column>],
    stacks: &HashMap<String, &str>,
    can_have: fn(&[Column]) -> bool,
) -> Result<Vec<Option<R>>> {
    let (mut able, mut others) = (Vec::with_capacity(columns.len()), Vec::new());
    for of_schemas in columns {
        let Some(Column { name, type_name, .. }) = of_schemas.first() else { continue };
        if can_have(of_schemas) {
            able.push(Named { name, stack: stacks.get(name).copied() });
        } else {
            others.push((name.as_str(), type_name.as_str()));
        }
    }
    column_rules::check_fit(argument, rules, &able, &others, what)?;
    let mut found = column_rules::resolve(argument, rules, &able)?.into_iter();
    let mut rule_of = |of_schemas: &Vec<Column>| if can_have(of_schemas) { found.next()? } else { None };
    Ok(columns.iter().map(&mut rule_of).collect())
}

/// Whether the values of a column are bytes, which are no numbers: as files hold them that have it.
fn are_bytes(of_schemas: &[Column]) -> bool {
    of_schemas.iter().any(|column| match column.stored {
        Stored::Fixed(_) | Stored::Bytes => true,
        Stored::Decimal { .. } => column.dtype == Some(Dtype::Uint8),
        _ => matches!(column.kind, Kind::String | Kind::Binary),
    })
}

fn can_be_cast(of_schemas: &[Column]) -> bool {
    let are_numbers = |column: &Column| {
        matches!(column.kind, Kind::Scalar | Kind::List | Kind::Lists) && column.dtype.is_some()
    };
    of_schemas.iter().all(are_numbers) && !are_bytes(of_schemas)
}

fn can_be_hashed(of_schemas: &[Column]) -> bool {
    let is_other_list = of_schemas.iter().any(|column| matches!(column.kind, Kind::List | Kind::Lists));
    let are_integers = of_schemas.iter().all(|column| column.dtype.is_some_and(Dtype::is_integer));
    if are_bytes(of_schemas) { !is_other_list } else { are_integers && can_be_cast(of_schemas) }
}

fn can_be_coded(of_schemas: &[Column]) -> bool {
    let is_text = |column: &Column| {
        matches!(column.kind, Kind::String | Kind::Binary | Kind::Strings | Kind::Binaries)
            && matches!(column.stored, Stored::Bytes | Stored::Nothing)
    };
    of_schemas.iter().all(is_text)
}
