//! Rules that the user gives by names and patterns: which one each column has.

use std::collections::HashSet;

use crate::error::{Error, Result};

/// Columns, and what is said of them: the name of a column, of a stack, or of a struct or map that columns are
/// in, or a pattern of columns' names; all columns where there is none.
pub type Rule<R> = (Option<String>, R);

/// A column that a rule is looked up for.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// The stack that it is in.
    pub stack: Option<&'a str>,
}

/// An error names no more columns than these.
const NAMED: usize = 20;

/// What wins where several rules fit: the last of these; among equals, the first that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Pattern,
    Struct,
    Stack,
    Name,
}

/// Whether a column is in a struct or map of this name.
#[must_use]
pub fn is_in(column: &str, name: &str) -> bool {
    column.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
}

/// A pattern of columns' names.
///
/// # Errors
/// `Argument` if it can't be read.
pub fn pattern(text: &str) -> Result<glob::Pattern> {
    glob::Pattern::new(text)
        .map_err(|cause| Error::Argument(format!("the pattern '{text}' can't be read: {cause}")))
}

/// What is said of something that matches none of the columns.
pub fn no_match<'a>(what: &str, columns: impl ExactSizeIterator<Item = &'a str>) -> Error {
    let more = if columns.len() > NAMED { ", ..." } else { "" };
    let names: Vec<&str> = columns.take(NAMED).collect();
    Error::data(format!("no column matches {what}; there are: {}{more}", names.join(", ")))
}

/// Refuses a rule that means columns of other types alone. `able` are those that it can be for, `others` the rest
/// with their types; `what` says of which types it can be.
///
/// # Errors
/// `Data`, naming the column and both.
pub fn check_fit<R>(
    argument: &str,
    rules: &[Rule<R>],
    able: &[Named<'_>],
    others: &[(&str, &str)],
    what: &str,
) -> Result<()> {
    for key in rules.iter().filter_map(|(key, _)| key.as_deref()) {
        let pattern = glob::Pattern::new(key);
        let means =
            |name: &str| is_in(name, key) || pattern.as_ref().is_ok_and(|pattern| pattern.matches(name));
        let is_able = || able.iter().any(|column| means(column.name) || column.stack == Some(key));
        let named = others.iter().find(|(name, _)| *name == key);
        let unfit = || others.iter().find(|(name, _)| means(name)).filter(|_| !is_able());
        if let Some((name, type_name)) = named.or_else(unfit) {
            let reason = format!("{argument}= is not for a column of type {type_name}, but for {what}");
            return Err(Error::data(reason).in_column(name));
        }
    }
    Ok(())
}

/// The columns that names, names of structs and patterns mean, in the order of these, each once, but for
/// those that one after a `!` means; all columns but for these, if there are no others.
///
/// # Errors
/// `Data` if one means no column; `Argument` if a pattern can't be read.
pub fn pick<'a>(among: &[&'a str], patterns: &[String]) -> Result<Vec<&'a str>> {
    let is_name = |text: &str| among.contains(&text);
    let matching = |text: &str, whole: &str| -> Result<Vec<&'a str>> {
        let found: Vec<&str> = if is_name(text) {
            among.iter().copied().filter(|name| *name == text).take(1).collect()
        } else if among.iter().any(|name| is_in(name, text)) {
            among.iter().copied().filter(|name| is_in(name, text)).collect()
        } else {
            let pattern = pattern(text)?;
            among.iter().copied().filter(|name| pattern.matches(name)).collect()
        };
        if found.is_empty() {
            return Err(no_match(&format!("'{whole}'"), among.iter().copied()));
        }
        Ok(found)
    };
    let mut picked = Vec::new();
    let mut seen = HashSet::new();
    let mut are_all_left_out = !patterns.is_empty();
    for text in patterns {
        match text.strip_prefix('!').filter(|_| !is_name(text)) {
            Some(left_out) => seen.extend(matching(left_out, text)?),
            None => are_all_left_out = false,
        }
    }
    if are_all_left_out {
        picked.extend(among.iter().copied().filter(|name| seen.insert(*name)));
    }
    for text in patterns.iter().filter(|text| !text.starts_with('!') || is_name(text)) {
        picked.extend(matching(text, text)?.into_iter().filter(|name| seen.insert(*name)));
    }
    Ok(picked)
}

/// The rule of each column. Its name wins over its stack's, that over the name of a struct that it is in, that
/// over a pattern, the first pattern that fits over others. `argument` is what gave the rules.
///
/// # Errors
/// `Data` if a name or pattern fits no column; `Argument` if a pattern can't be read.
pub fn resolve<R: Copy>(argument: &str, rules: &[Rule<R>], columns: &[Named<'_>]) -> Result<Vec<Option<R>>> {
    let mut found: Vec<Option<(Rank, R)>> = vec![None; columns.len()];
    for (key, rule) in rules {
        let is_name = |column: &Named<'_>| key.as_deref() == Some(column.name);
        let is_stack = |column: &Named<'_>| key.is_some() && key.as_deref() == column.stack;
        // Where a column has the name, others whose names go on behind a dot are none of its members.
        let has_name = columns.iter().any(is_name);
        let is_struct =
            |column: &Named<'_>| !has_name && key.as_deref().is_some_and(|key| is_in(column.name, key));
        let is_named = columns.iter().any(|column| is_name(column) || is_stack(column) || is_struct(column));
        let pattern = match key.as_deref() {
            Some(key) if !is_named => Some(glob::Pattern::new(key).map_err(|cause| {
                Error::Argument(format!("the pattern '{key}' of {argument} can't be read: {cause}"))
            })?),
            _ => None,
        };
        let mut is_used = false;
        for (column, found) in columns.iter().zip(&mut found) {
            let rank = match &pattern {
                _ if is_name(column) => Rank::Name,
                _ if is_stack(column) => Rank::Stack,
                _ if is_struct(column) => Rank::Struct,
                Some(pattern) if pattern.matches(column.name) => Rank::Pattern,
                None if key.is_none() => Rank::Pattern,
                _ => continue,
            };
            is_used = true;
            if found.is_none_or(|(other, _)| rank > other) {
                *found = Some((rank, *rule));
            }
        }
        if let Some(key) = key.as_deref().filter(|_| !is_used) {
            let names = columns.iter().map(|column| column.name);
            return Err(no_match(&format!("'{key}' of {argument}"), names));
        }
    }
    Ok(found.into_iter().map(|found| found.map(|(_, rule)| rule)).collect())
}
