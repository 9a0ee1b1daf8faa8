//! Names and patterns of columns: which ones each means.

use std::collections::HashSet;

use crate::error::{Error, Result, nearest};

/// An error names no more columns than these.
const NAMED: usize = 20;

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
    glob::Pattern::new(text).map_err(|cause| {
        Error::Argument(format!("the pattern '{text}' can't be read: {cause}; [[] matches ["))
    })
}

/// What is said of names and patterns that match none of the columns.
#[must_use]
pub fn no_match(texts: &[&str], columns: &[&str]) -> Error {
    let each = texts.iter().take(NAMED).map(|text| match nearest(text, columns) {
        Some(near) => format!("'{text}' (did you mean '{near}'?)"),
        None => format!("'{text}'"),
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let more = if columns.len() > NAMED { ", ..." } else { "" };
    let names = columns.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    Error::data(format!("no column matches {each}; there are: {names}{more}"))
}

/// The columns that a name, the name of a struct or map, or a pattern means, in their order.
///
/// # Errors
/// `Argument` if a pattern can't be read.
pub fn matching<'a>(among: &[&'a str], text: &str) -> Result<Vec<&'a str>> {
    if let Some(name) = among.iter().copied().find(|name| *name == text) {
        return Ok(vec![name]);
    }
    let members: Vec<&str> = among.iter().copied().filter(|name| is_in(name, text)).collect();
    if !members.is_empty() {
        return Ok(members);
    }
    let pattern = pattern(text)?;
    Ok(among.iter().copied().filter(|name| pattern.matches(name)).collect())
}

/// What a text takes out, if it begins with `!` and is no name.
#[must_use]
pub fn left_out<'a>(among: &[&str], text: &'a str) -> Option<&'a str> {
    text.strip_prefix('!').filter(|_| !among.contains(&text))
}

/// The columns that texts mean, in the order of these, each once, but for those that one after a `!` means; all columns but
/// for these, if there are no others. `may_miss` allows a text that means none.
///
/// # Errors
/// `Data` if one means no column; `Argument` if a pattern can't be read.
pub fn pick<'a>(among: &[&'a str], texts: &[String], may_miss: bool) -> Result<Vec<&'a str>> {
    let found = |text: &str, whole: &str| {
        let found = matching(among, text)?;
        if found.is_empty() && !may_miss {
            return Err(no_match(&[whole], among));
        }
        Ok(found)
    };
    let mut seen = HashSet::new();
    let mut picked = Vec::new();
    let mut are_all_left_out = !texts.is_empty();
    for text in texts {
        match left_out(among, text) {
            Some(out) => seen.extend(found(out, text)?),
            None => are_all_left_out = false,
        }
    }
    if are_all_left_out {
        picked.extend(among.iter().copied().filter(|name| seen.insert(*name)));
    }
    for text in texts.iter().filter(|text| left_out(among, text).is_none()) {
        picked.extend(found(text, text)?.into_iter().filter(|name| seen.insert(*name)));
    }
    Ok(picked)
}

/// Whether one of some texts means a column, by its name, that of a struct it is in, or a pattern.
///
/// # Errors
/// `Argument` if a pattern can't be read.
pub fn is_meant(texts: &[String], column: &str) -> Result<bool> {
    for text in texts {
        if column == text || is_in(column, text) || pattern(text)?.matches(column) {
            return Ok(true);
        }
    }
    Ok(false)
}
