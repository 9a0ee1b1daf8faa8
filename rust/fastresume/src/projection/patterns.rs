//! Names and patterns of columns: which ones each means.

use std::collections::HashSet;

use crate::error::{Error, Result, nearest};

/// An error names no more columns than these.
const NAMED: usize = 20;

/// What stands before a column that is left out, here and in other libraries.
const SIGNS_OF_EXCLUSION: [char; 4] = ['!', '-', '~', '^'];

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
    let each = texts.iter().take(NAMED).map(|text| match meant(text, columns) {
        Some(hint) => format!("'{text}' ({hint})"),
        None => format!("'{text}'"),
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let more = if columns.len() > NAMED { ", ..." } else { "" };
    let names = columns.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    Error::data(format!("no column matches {each}; there are: {names}{more}"))
}

/// What to write instead of a text that matches no column. What looks as if it left one out must not add it.
fn meant(text: &str, columns: &[&str]) -> Option<String> {
    let is_there = |text: &str| matching(columns, text).is_ok_and(|found| !found.is_empty());
    if let Some(regex) = text.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')) {
        let pattern = regex.replace(".*", "*");
        let way = if is_there(&pattern) { format!("write '{pattern}'") } else { "as 'f_*'".to_owned() };
        return Some(format!("patterns are those of files: {way}"));
    }
    let several: Vec<&str> = text.split([',', '|']).map(str::trim).collect();
    if several.len() > 1 && several.iter().all(|text| is_there(text)) {
        return Some(format!("write them one by one: '{}'", several.join("', '")));
    }
    let Some(out) = text.strip_prefix(SIGNS_OF_EXCLUSION) else {
        let member = columns.iter().find(|name| name.rsplit_once('.').is_some_and(|(_, last)| last == text));
        return nearest(text, columns).or(member.copied()).map(did_you_mean);
    };
    if is_there(out) {
        return Some(format!("write '!{out}' to leave it out"));
    }
    nearest(out, columns).map(|near| did_you_mean(&format!("!{near}")))
}

fn did_you_mean(near: &str) -> String {
    format!("did you mean '{near}'?")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_leave_out_by_another_sign_is_never_offered_as_a_column_to_add() {
        let columns = ["id", "label", "f_0", "-x"];
        for (text, hint) in [
            ("-label", "'-label' (write '!label' to leave it out);"),
            ("~f_*", "'~f_*' (write '!f_*' to leave it out);"),
            ("^label", "'^label' (write '!label' to leave it out);"),
            ("-lable", "'-lable' (did you mean '!label'?);"),
            ("!lable", "'!lable' (did you mean '!label'?);"),
            ("lable", "'lable' (did you mean 'label'?);"),
            ("-zebra", "'-zebra';"),
        ] {
            let found = no_match(&[text], &columns).to_string();
            assert!(found.contains(hint), "{found}");
        }
        assert!(pick(&columns, &["-x".into()], false).is_ok(), "a name of its own");
    }

    #[test]
    fn regular_expressions_lists_in_one_text_and_members_of_structs_are_known() {
        let columns = ["id", "label", "f_0", "user.address.city"];
        for (text, hint) in [
            ("^f_.*$", "(patterns are those of files: write 'f_*');"),
            ("^f_[0-9]+$", "(patterns are those of files: as 'f_*');"),
            ("id, label", "(write them one by one: 'id', 'label');"),
            ("id|f_*", "(write them one by one: 'id', 'f_*');"),
            ("id,zebra", "'id,zebra';"),
            ("city", "(did you mean 'user.address.city'?);"),
        ] {
            let found = no_match(&[text], &columns).to_string();
            assert!(found.contains(hint), "{found}");
        }
    }
}
