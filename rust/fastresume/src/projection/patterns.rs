//! Names and patterns of columns: which ones each means.

use std::collections::HashSet;

use crate::error::{Error, Result};

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

/// A longer name is not compared letter by letter.
const LONGEST: usize = 64;

/// The name that is most like a text, if one is much like it.
fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let (text, most) = (plain(text), (text.len() / 3).min(2));
    if text.len() > LONGEST {
        return None;
    }
    let near = names.iter().filter(|name| name.len().abs_diff(text.len()) <= 2 + name.len() / 3);
    let near = near.map(|name| (edits(&text, &plain(name)), *name)).filter(|&(edits, _)| edits <= most);
    near.min().map(|(_, name)| name)
}

/// The letters of a name, in which people mistake neither case nor what stands between words.
fn plain(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).take(LONGEST + 1).collect()
}

/// How many letters were left out, added, changed, or changed their places with the next one.
fn edits(one: &[char], other: &[char]) -> usize {
    let mut rows = vec![(0..=other.len()).collect::<Vec<_>>()];
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, also) in other.iter().enumerate() {
            let above = &rows[row];
            let changed = above[column] + usize::from(letter != also);
            let mut least = changed.min(above[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && one[row - 1] == *also && *letter == other[column - 1] {
                least = least.min(rows[row - 1][column - 1] + 1);
            }
            next.push(least);
        }
        rows.push(next);
    }
    rows[one.len()][other.len()]
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
