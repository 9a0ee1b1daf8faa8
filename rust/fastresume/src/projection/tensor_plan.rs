//! From what was asked for to tensors: which columns each is made of, and what becomes of these.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;

use crate::dataset::file_value::FileValue;
use crate::error::{Error, Result};
use crate::projection::patterns::{is_in, left_out, matching, no_match, pick};
use crate::projection::request::{ColumnRules, Entry, Expression, Policy, Request};

/// A column of the files, and what becomes of it.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    /// Its name in the files.
    pub column: &'a str,
    /// What becomes of it.
    pub rules: &'a ColumnRules,
    /// What the user wrote of it, if anything.
    pub text: Option<&'a str>,
}

/// What a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// A column as it is.
    Plain,
    /// What an expression makes of a column.
    Made,
    /// Columns side by side.
    Stack,
    /// Whether a struct is there.
    StructMask,
}

/// One tensor to be.
#[derive(Debug, Clone)]
pub struct TensorPlan<'a> {
    /// Its name.
    pub name: String,
    /// What it is.
    pub make: Make,
    /// The columns that it is made of.
    pub parts: Vec<Part<'a>>,
    /// What the user wrote of it, if anything.
    pub text: Option<&'a str>,
}

/// What becomes of columns of which nothing is said.
static AS_THEY_ARE: LazyLock<ColumnRules> = LazyLock::new(ColumnRules::default);

/// The tensors that are asked for, in the order of the request; of the columns of all files and of the structs in them,
/// the names.
///
/// # Errors
/// `Data` if a name or pattern means no column; `Argument` if a pattern can't be read, two tensors have one name, or
/// nothing is asked for.
pub fn plan<'a>(
    names: &[&'a str],
    structs: &[&str],
    request: &'a Request,
    first_file: &Path,
) -> Result<Vec<TensorPlan<'a>>> {
    planned(names, structs, request).map_err(|error| unmatched(names, request, first_file).unwrap_or(error))
}

/// The error of all names and patterns that mean no column, if there are any.
fn unmatched(names: &[&str], request: &Request, first_file: &Path) -> Option<Error> {
    let mut found: Vec<(&str, Option<&str>)> = Vec::new();
    let is_unmatched = |text: &&str| {
        let meant = matching(names, left_out(names, text).unwrap_or(text));
        meant.is_ok_and(|columns| columns.is_empty())
    };
    for entry in request.columns.iter().flatten() {
        let (expressions, whole) = match entry {
            Entry::Plain(text) => {
                found.extend(Some(text.as_str()).filter(is_unmatched).map(|text| (text, None)));
                continue;
            }
            Entry::Made(expression) => (std::slice::from_ref(expression), &expression.text),
            Entry::Stack { parts, text, .. } => (parts.as_slice(), text),
        };
        let strict = expressions.iter().filter(|one| !one.rules.is_optional && !one.rules.is_of_path);
        let texts = strict.flat_map(|one| &one.names).map(String::as_str).filter(is_unmatched);
        found.extend(texts.map(|text| (text, Some(whole.as_str()))));
    }
    let texts: Vec<&str> = found.iter().map(|(text, _)| *text).collect();
    let of_path = texts.iter().find(|text| FileValue::of(first_file, text) != FileValue::Missing);
    let error = no_match(&texts, names).with_reason(|reason| match of_path {
        Some(name) => format!("{reason}; fr.col('{name}').from_path() is what the files' paths say"),
        None => reason.to_owned(),
    });
    match found.as_slice() {
        [] => None,
        [(_, Some(whole))] => Some(within(whole, error)),
        _ => Some(error),
    }
}

fn planned<'a>(names: &[&'a str], structs: &[&str], request: &'a Request) -> Result<Vec<TensorPlan<'a>>> {
    let mut found = FoundTensors::default();
    let Some(entries) = &request.columns else {
        names.iter().try_for_each(|name| found.add(plain(name)))?;
        return found.tensors(|| "the files have no columns".to_owned());
    };
    let plains: Vec<String> = entries.iter().filter_map(plain_text).cloned().collect();
    let picked = pick(names, &plains, false)?;
    // All of a pattern's columns come where it stands; those of `!` alone, where the first of these stands.
    let are_all_left_out = plains.iter().all(|text| left_out(names, text).is_some());
    let is_picked: HashSet<&str> = picked.iter().copied().collect();
    for entry in entries {
        match entry {
            Entry::Plain(text) if are_all_left_out || left_out(names, text).is_none() => {
                let of_text = if are_all_left_out {
                    picked.clone()
                } else {
                    pick(names, std::slice::from_ref(text), false)?
                };
                let own = of_text.into_iter().filter(|name| is_picked.contains(name));
                own.map(plain).try_for_each(|tensor| found.add(tensor))?;
            }
            Entry::Plain(_) => {}
            Entry::Made(expression) => add_made(&mut found, names, structs, expression)?,
            Entry::Stack { name, parts, text } => {
                let mut columns = Vec::new();
                for expression in parts {
                    columns.extend(parts_of(names, expression).map_err(|error| within(text, error))?);
                }
                if columns.is_empty() {
                    return Err(Error::Argument(format!("{text} names no column")));
                }
                let tensor =
                    TensorPlan { name: name.clone(), make: Make::Stack, parts: columns, text: Some(text) };
                found.add(tensor)?;
            }
        }
    }
    let optional = entries.iter().find_map(|entry| match entry {
        Entry::Made(expression) if expression.rules.is_optional => Some(expression.text.as_str()),
        _ => None,
    });
    found.tensors(|| match optional {
        Some(text) => format!("{text} is in no file, and nothing else is named"),
        None if entries.is_empty() => "without columns=, all are".to_owned(),
        None => {
            format!("columns= leaves out all that it names; there are: {}", some_of(names.iter().copied()))
        }
    })
}

fn plain_text(entry: &Entry) -> Option<&String> {
    if let Entry::Plain(text) = entry { Some(text) } else { None }
}

fn plain(name: &str) -> TensorPlan<'_> {
    let part = Part { column: name, rules: &AS_THEY_ARE, text: None };
    TensorPlan { name: name.to_owned(), make: Make::Plain, parts: vec![part], text: None }
}

/// The columns that an expression means.
fn parts_of<'a>(names: &[&'a str], expression: &'a Expression) -> Result<Vec<Part<'a>>> {
    let Expression { names: texts, rules, text, .. } = expression;
    let columns: Vec<&str> = if rules.is_of_path {
        // What paths hold is no column of a file.
        texts.iter().map(String::as_str).collect()
    } else {
        pick(names, texts, rules.is_optional).map_err(|error| within(text, error))?
    };
    Ok(columns.into_iter().map(|column| Part { column, rules, text: Some(text) }).collect())
}

/// Adds what an expression makes.
fn add_made<'a>(
    found: &mut FoundTensors<'a>,
    names: &[&'a str],
    structs: &[&str],
    expression: &'a Expression,
) -> Result<()> {
    let text = expression.text.as_str();
    let parts = parts_of(names, expression)?;
    if let (Some(alias), [_, _, ..]) = (&expression.alias, parts.as_slice()) {
        let columns: Vec<&str> = parts.iter().take(4).map(|part| part.column).collect();
        return Err(Error::Argument(format!(
            "{text} means {} columns ({}{}), which can't all be called '{alias}': an alias is for one",
            parts.len(),
            columns.join(", "),
            if parts.len() > columns.len() { ", ..." } else { "" },
        )));
    }
    for part in parts {
        let name = expression.alias.clone().unwrap_or_else(|| part.column.to_owned());
        found.add(TensorPlan { name, make: Make::Made, parts: vec![part], text: Some(text) })?;
    }
    if expression.rules.nulls != Some(Policy::Mask) {
        return Ok(());
    }
    // A struct that is named has a mask of its own, besides those of its members.
    let is_struct = |name: &&str| structs.contains(name) && names.iter().any(|column| is_in(column, name));
    for name in expression.names.iter().map(String::as_str).filter(is_struct) {
        let part = Part { column: name, rules: &expression.rules, text: Some(text) };
        let (name, make) = (format!("{name}_valid"), Make::StructMask);
        found.add(TensorPlan { name, make, parts: vec![part], text: Some(text) })?;
    }
    Ok(())
}

/// An error of what a user wrote, which it names.
pub fn within(text: &str, error: Error) -> Error {
    match error {
        Error::Argument(reason) => Error::Argument(format!("{text}: {reason}")),
        other => other.with_reason(|reason| format!("{text}: {reason}")),
    }
}

/// The tensors that were found so far, and where each is.
#[derive(Default)]
struct FoundTensors<'a> {
    tensors: Vec<TensorPlan<'a>>,
    places: HashMap<String, usize>,
}

impl<'a> FoundTensors<'a> {
    /// Adds a tensor. What an expression makes of a column takes the place of the column as it is.
    fn add(&mut self, tensor: TensorPlan<'a>) -> Result<()> {
        match self.places.entry(tensor.name.clone()) {
            Slot::Vacant(slot) => {
                slot.insert(self.tensors.len());
                self.tensors.push(tensor);
            }
            Slot::Occupied(slot) => {
                let other = &mut self.tensors[*slot.get()];
                let is_same = other.parts.first().map(|part| part.column)
                    == tensor.parts.first().map(|part| part.column);
                match (other.make, tensor.make) {
                    (Make::Made | Make::Plain, Make::Plain) if is_same => {}
                    (Make::Plain, Make::Made) if is_same => *other = tensor,
                    _ => {
                        return Err(Error::Argument(format!(
                            "two tensors are called '{}': {} and {}; .alias(name), and the name= of a stack, name them",
                            tensor.name,
                            what(other),
                            what(&tensor)
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// All of them; if there are none, an error says why.
    fn tensors(self, why: impl FnOnce() -> String) -> Result<Vec<TensorPlan<'a>>> {
        if self.tensors.is_empty() {
            return Err(Error::Argument(format!("no column is selected: {}", why())));
        }
        Ok(self.tensors)
    }
}

/// What a tensor is, for people.
fn what(tensor: &TensorPlan<'_>) -> String {
    tensor.text.map_or_else(|| format!("the column '{}'", tensor.name), str::to_owned)
}

/// An error tells of so many tensors, at most.
const MOST_NAMED: usize = 20;

/// What of a tensor is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It can't be delivered.
    Whole,
    /// It has nulls.
    Nulls,
}

/// A tensor with which something is wrong.
#[derive(Debug, Clone)]
pub struct Wrong {
    /// The name of the tensor.
    pub name: String,
    /// Whether nothing was said of it.
    pub is_plain: bool,
    /// What of it is wrong.
    pub fault: Fault,
    /// Why.
    pub error: Error,
    /// What to write instead, where that is known.
    pub way: Option<String>,
}

impl Wrong {
    /// A tensor that can't be delivered.
    #[must_use]
    pub fn of(tensor: &TensorPlan<'_>, error: Error, way: Option<String>) -> Self {
        let is_plain = tensor.make == Make::Plain;
        Self { name: tensor.name.clone(), is_plain, fault: Fault::Whole, error, way }
    }
}

/// The error that tells all that is wrong with tensors, and how to do with those of which nothing was said: they are left
/// out, or their nulls masked. `uncounted` are those of which nulls would be errors that nothing tells of yet. `are_all`
/// tells whether no list of columns was given.
#[must_use]
pub fn refusal(wrong: &[Wrong], uncounted: &[&str], are_all: bool) -> Error {
    let named = |fault: Fault| {
        let plain = wrong.iter().filter(move |one| one.is_plain && one.fault == fault);
        plain.map(|one| one.name.as_str()).take(MOST_NAMED).collect::<Vec<_>>()
    };
    let (left_out, masked) = (named(Fault::Whole), named(Fault::Nulls));
    let mut entries = vec![if are_all { "'*'".to_owned() } else { "...".to_owned() }];
    entries.extend(left_out.iter().map(|name| format!("'!{name}'")));
    if !masked.is_empty() {
        let columns: Vec<String> = masked.iter().map(|name| format!("'{name}'")).collect();
        entries.push(format!("fr.col({}).mask_null()", columns.join(", ")));
    }
    let remedy = match (left_out.len(), masked.len()) {
        (0, 0) => None,
        (1, 0) => Some("leaves it out"),
        (_, 0) => Some("leaves them out"),
        (0, 1) => Some("masks its nulls"),
        (0, _) => Some("masks their nulls"),
        _ => Some("leaves out what can't be delivered, and masks nulls"),
    };
    let line = remedy.map_or_else(String::new, |what| format!("; columns=[{}] {what}", entries.join(", ")));
    let is_wrong: HashSet<&str> = wrong.iter().map(|one| one.name.as_str()).collect();
    let uncounted: Vec<&str> = uncounted.iter().copied().filter(|name| !is_wrong.contains(name)).collect();
    let warning = if uncounted.is_empty() { String::new() } else { not_counted(&uncounted) };
    if let [one] = wrong {
        let way = one.way.as_ref().map_or_else(String::new, |way| format!(". {way}"));
        let warning = if warning.is_empty() { warning } else { format!("; {warning}") };
        let edited = |reason: &str| format!("{reason}{line}{warning}{way}");
        return match &one.error {
            Error::Argument(reason) => Error::Argument(format!("{reason}{way}")),
            error => error.clone().with_reason(edited),
        };
    }
    let count = wrong.len();
    let (each, named) = each_reason(wrong);
    let more = if count > named { format!("\n  and {} more", count - named) } else { String::new() };
    let warning = if warning.is_empty() { warning } else { format!("\n  {warning}") };
    let are_nulls = wrong.iter().all(|one| one.fault == Fault::Nulls);
    let what = if are_nulls { "have nulls" } else { "can't be delivered" };
    let reason = format!("{count} columns {what}{line}:{each}{more}{warning}");
    if wrong.iter().all(|one| matches!(one.error, Error::Argument(_))) {
        Error::Argument(reason)
    } else {
        Error::data(reason)
    }
}

/// A line for each reason, with the columns that have it, and how many columns these are.
fn each_reason(wrong: &[Wrong]) -> (String, usize) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut of_reasons: Vec<(String, Vec<&Wrong>)> = Vec::new();
    for one in wrong {
        // How many nulls there are is of one column.
        let reason = match one.fault {
            Fault::Whole => one.error.clone().of_several_columns().to_string(),
            Fault::Nulls => one.error.to_string(),
        };
        let place = *places.entry(reason.clone()).or_insert(of_reasons.len());
        if place == of_reasons.len() {
            of_reasons.push((reason, Vec::new()));
        }
        of_reasons[place].1.push(one);
    }
    let mut count = 0;
    let lines = of_reasons.iter().take(MOST_NAMED).map(|(reason, columns)| {
        count += columns.len();
        match columns.as_slice() {
            [one] => format!("\n  '{}': {}", one.name, one.error),
            _ => format!("\n  {}: {reason}", some_of(columns.iter().map(|one| one.name.as_str()))),
        }
    });
    let lines = lines.collect();
    (lines, count)
}

/// The first of some names, and how many more there are.
fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let first: Vec<String> = names.take(MOST_NAMED).map(|name| format!("'{name}'")).collect();
    let more = if count > MOST_NAMED { format!(" and {} more", count - MOST_NAMED) } else { String::new() };
    format!("{}{more}", first.join(", "))
}

/// What is said of columns whose nulls nothing counts.
fn not_counted(names: &[&str]) -> String {
    let columns = some_of(names.iter().copied());
    format!("footers don't count the nulls of {columns}: one is an error when it is read")
}
