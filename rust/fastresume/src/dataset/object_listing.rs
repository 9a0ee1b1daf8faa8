//! From an address to the objects that it means, by the rules of paths on a local disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::dataset::file_kind::{FileKind, is_checksum, is_left_out};
use crate::dataset::other_files::OtherFiles;
use crate::dataset::tables::Table;
use crate::error::{Error, Result, shown};
use crate::source::address::{AFTER_SCHEME, is_of_web};
use crate::source::store::{ListedObject, Store};

/// One part of an address that may be a pattern.
enum PatternPart<'a> {
    /// What lies below a directory.
    Below,
    AnyDepth,
    Names(&'a str, glob::Pattern),
}

/// The objects that an address means: itself; or all of the kind below it, names that begin with `_` or `.` left out; or, of a glob pattern, those that it matches. A part in brackets stands for one character.
///
/// # Errors
/// As for [`Store::list`]; `Argument` if the address is no text or a pattern can't be read; `Data` if it means files of a
/// table; `Missing` if it means none.
pub fn expand(
    store: &dyn Store,
    entry: &Path,
    kind: FileKind,
    stop: &AtomicBool,
) -> Result<Vec<ListedObject>> {
    let entry_text = entry.to_str().ok_or_else(|| wrong(entry, "it is no text"))?;
    if is_of_web(entry) {
        return store.list(entry, stop);
    }
    let named = entry_text.trim_end_matches('/');
    let is_directory = named.len() < entry_text.len();
    let start = named.find(AFTER_SCHEME).map_or(0, |found| found + AFTER_SCHEME.len());
    let mut parts = named[start..].split('/');
    // The name of a bucket, or of a host with its port, is no pattern.
    let mut base = format!("{}{}", &named[..start], parts.next().unwrap_or_default());
    let mut patterns = Vec::new();
    for part in parts {
        if part.is_empty() {
            return Err(wrong(entry, "a part of it is empty"));
        }
        if patterns.is_empty() && !part.contains(['*', '?', '[']) {
            base.push('/');
            base.push_str(part);
        } else if part == "**" {
            patterns.push(PatternPart::AnyDepth);
        } else {
            let pattern = glob::Pattern::new(part).map_err(|cause| wrong(entry, &cause.to_string()))?;
            patterns.push(PatternPart::Names(part, pattern));
        }
    }
    if is_directory && patterns.is_empty() {
        base.push('/');
    } else if is_directory {
        patterns.push(PatternPart::Below);
    }
    let base = Path::new(&base);
    let mut found = store.list(base, stop)?;
    let tables = tables_among(&found, base);
    if !found.iter().any(|object| is_meant(&object.path, base, &patterns, kind)) {
        let mut others = OtherFiles::new(base, kind);
        let below = found.iter().filter_map(|object| object.path.strip_prefix(base).ok());
        below.filter(|_| patterns.is_empty()).for_each(|path| others.see(path));
        return Err(no_object(entry, kind, &others.of_store()));
    }
    found.retain(|object| is_meant(&object.path, base, &patterns, kind));
    if let Some(first) = found.first() {
        refuse_tables(store, &found, first, base, &tables, stop)?;
    }
    Ok(found)
}

fn no_object(entry: &Path, kind: FileKind, others: &str) -> Error {
    let (ends, named) = (kind.endings(), shown(entry));
    Error::Missing(format!(
        "no object that ends in {ends} is at or below '{named}', and none matches it{others}"
    ))
}

fn wrong(entry: &Path, cause: &str) -> Error {
    Error::Argument(format!("the address '{}' can't be read: {cause}", shown(entry)))
}

fn is_meant(path: &Path, base: &Path, patterns: &[PatternPart<'_>], kind: FileKind) -> bool {
    if path == base {
        return patterns.is_empty();
    }
    let Ok(relative) = path.strip_prefix(base) else { return false };
    let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
    parts.is_some_and(|parts| is_met(&parts, patterns, kind))
}

/// Whether the parts of an object's address below a base are met by a pattern, or lie below a directory that is.
fn is_met(parts: &[&str], patterns: &[PatternPart<'_>], kind: FileKind) -> bool {
    let Some((&part, below)) = parts.split_first() else { return false };
    let Some((pattern, rest)) = patterns.split_first() else { return is_below(parts, kind) };
    match pattern {
        PatternPart::Below => is_below(parts, kind),
        PatternPart::AnyDepth => {
            let is_here = !rest.is_empty() && is_met(parts, rest, kind);
            let goes_on = if below.is_empty() {
                rest.is_empty() && !is_checksum(part)
            } else {
                is_met(below, patterns, kind)
            };
            is_here || (goes_on && !is_left_out(part))
        }
        PatternPart::Names(text, pattern) => {
            let is_itself = part == *text;
            let may_match = !is_left_out(part) || is_left_out(text);
            if !(is_itself || (may_match && pattern.matches(part))) {
                return false;
            }
            match (below.is_empty(), rest.is_empty()) {
                (true, true) => is_itself || !is_checksum(part),
                (true, false) => false,
                (false, _) => is_met(below, rest, kind),
            }
        }
    }
}

/// Whether an object is one of those that a directory means.
fn is_below(parts: &[&str], kind: FileKind) -> bool {
    !parts.iter().any(is_left_out) && parts.last().is_some_and(|name| kind.has(name))
}

/// The tables whose own objects are among those that were listed, by their directories.
fn tables_among(found: &[ListedObject], base: &Path) -> BTreeMap<PathBuf, Table> {
    let mut tables = BTreeMap::new();
    for object in found {
        let Ok(relative) = object.path.strip_prefix(base) else { continue };
        let mut directory = base.to_owned();
        let names: Vec<&str> = relative.iter().filter_map(|part| part.to_str()).collect();
        for pair in names.windows(2) {
            if let Some(table) = Table::of_log(pair[0], pair[1]) {
                tables.entry(directory.clone()).or_insert(table);
            }
            directory.push(pair[0]);
        }
    }
    tables
}

/// Refuses objects that lie in a table, however far above them its directory may be.
fn refuse_tables(
    store: &dyn Store,
    found: &[ListedObject],
    first: &ListedObject,
    base: &Path,
    tables: &BTreeMap<PathBuf, Table>,
    stop: &AtomicBool,
) -> Result<()> {
    // An object that is named by itself may be one of a table: whoever lists them has asked the table.
    if first.path == base {
        return Ok(());
    }
    for object in found {
        for directory in object.path.ancestors().skip(1).take_while(|above| above.starts_with(base)) {
            if let Some(table) = tables.get(directory) {
                return Err(table.refused(directory));
            }
        }
    }
    let root = store.root(base)?;
    for directory in base.ancestors().skip(1).take_while(|above| above.starts_with(&root)) {
        for (table, log) in Table::LOGS {
            let log = directory.join(log);
            let is_there = match table {
                Table::Iceberg => {
                    let listed = store.list(&log, stop)?;
                    listed.iter().any(|object| {
                        let name = object.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                        Table::of_log("metadata", name).is_some()
                    })
                }
                _ => store.has(&log, stop)?,
            };
            if is_there {
                return Err(table.refused(directory));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(pattern: &str, below: &str) -> bool {
        let mut patterns: Vec<_> = pattern
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| match part {
                "**" => PatternPart::AnyDepth,
                part => PatternPart::Names(part, glob::Pattern::new(part).unwrap()),
            })
            .collect();
        if pattern.ends_with('/') {
            patterns.push(PatternPart::Below);
        }
        is_met(&below.split('/').collect::<Vec<_>>(), &patterns, FileKind::Parquet)
    }

    #[test]
    fn a_pattern_meets_what_it_meets_on_a_disk() {
        assert!(met("", "day=1/a.parquet"));
        assert!(!met("", "day=1/a.txt"));
        assert!(!met("", "_temporary/a.parquet"));
        assert!(met("day=*", "day=1/a.parquet"));
        assert!(!met("day=*", "day=1/.a.parquet"));
        assert!(!met("day=*", "week=1/a.parquet"));
        assert!(met("*.parquet", "a.parquet"));
        assert!(!met("*.parquet", "day=1/a.parquet"));
        assert!(met("**", "day=1/hour=2/a.bin"));
        assert!(!met("**", "day=1/_x/a.bin"));
        assert!(met("**/*.parquet", "a.parquet"));
        assert!(met("**/*.parquet", "b/c/a.parquet"));
        assert!(!met("**/*.parquet", "b/.c/a.parquet"));
        assert!(met("_*/a.parquet", "_b/a.parquet"));
        assert!(!met("*", "a.parquet.crc"));
        assert!(met("day=*/", "day=1/a.parquet"));
        assert!(!met("day=*/", "day=1"), "a directory is meant, and no object of its name");
        assert!(!met("*.parquet/", "a.parquet"));
        assert!(met("*.parquet/", "a.parquet/b.parquet"));
    }
}
