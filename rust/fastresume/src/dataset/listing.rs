//! From what the user named to the files of the dataset, in canonical order.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{DirEntry, FileType};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::dataset::file_kind::{FileKind, is_checksum, is_left_out};
use crate::dataset::object_listing;
use crate::dataset::other_files::OtherFiles;
use crate::dataset::tables::{Names, Tables, is_there};
use crate::error::{Error, Result, check, shown, without_query};
use crate::source::address::meant;
use crate::source::file_system::FileSystem;
use crate::source::status::Status;

/// A file of the dataset, before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The absolute path, links not resolved.
    pub path: PathBuf,
    /// The status that the listing states of an object; none of a local file.
    pub status: Option<Status>,
}

/// The files that `named` means, in canonical order: by the bytes of the path relative to their
/// common root.
///
/// A file means itself, whatever its name. A directory means all files below it whose names are of the kind, as
/// `.parquet`, names that begin with `_` or `.` left out. Anything else is a glob pattern: `*`, `?`,
/// `[...]`, and `**` for any number of directories (links to directories not followed); names that begin
/// with `_` or `.`, and checksum files (`.crc`), do not match a wildcard. A part in brackets means itself where
/// a directory has that very name.
///
/// What a wildcard meets and can't be asked what it is, a link that leads nowhere too, is an error: files may lie
/// below it. Silence is for what is not there alone.
///
/// # Errors
/// `Source` if an entry of `named` gives no file, or a directory or a status can't be read; `Data` if a
/// directory or pattern means files of a table; `Argument` if nothing is named, or an address of no store; `Interrupted` if `stop` is set on the way.
pub fn list(files: &FileSystem, named: &[PathBuf], kind: FileKind, stop: &AtomicBool) -> Result<Vec<Listed>> {
    if named.is_empty() {
        return Err(Error::Argument("no path is given".into()));
    }
    let mut paths = Vec::new();
    let mut statuses = Vec::new();
    let mut tables = Tables::default();
    for entry in named {
        let found = match files.store_of(entry)? {
            Some(store) => {
                let objects = object_listing::expand(store, entry, kind, stop)?;
                statuses.extend(objects.iter().map(|object| Some(object.status.clone())));
                objects.into_iter().map(|object| object.path).collect()
            }
            None => expand(entry, kind, &mut tables, stop)?,
        };
        if found.is_empty() {
            return Err(Error::Missing(if entry.is_dir() {
                let others = OtherFiles::of_disk(entry, kind);
                format!("there is no file that ends in {} below '{}'{others}", kind.endings(), shown(entry))
            } else {
                format!("no file matches '{}'{}", shown(entry), about_brackets(entry, kind))
            }));
        }
        paths.extend(found);
        statuses.resize(paths.len(), None);
    }
    let files = paths.into_iter().zip(statuses).map(|(path, status)| Listed { path, status });
    let mut files: Vec<Listed> = files.collect();
    // What all paths begin with decides nothing. Paths themselves compare by their parts, not by their bytes.
    // A query that lets in is another one each day.
    files.sort_by(|a, b| {
        let [one, other] = [a, b].map(|listed| without_query(&listed.path).as_os_str());
        one.cmp(other).then_with(|| a.path.as_os_str().cmp(b.path.as_os_str()))
    });
    Ok(files)
}

/// The files of generations, one after another in the order given; those of each as [`list`] finds them.
///
/// # Errors
/// As for `list`.
pub fn list_generations(
    files: &FileSystem,
    generations: &[Vec<PathBuf>],
    kind: FileKind,
    stop: &AtomicBool,
) -> Result<Vec<Listed>> {
    if generations.is_empty() {
        return Err(Error::Argument("no path is given".into()));
    }
    let mut listed = Vec::new();
    for named in generations {
        listed.extend(list(files, named, kind, stop)?);
    }
    Ok(listed)
}

/// Refuses the same path twice, also by way of a link, and gives what is to be said of files that have two names
/// (hard links, say): whoever made these may have meant it. `statuses` are what the system says of each.
///
/// # Errors
/// `Argument` if a file comes twice; `Source` if a path can't be resolved.
pub fn check_distinct<'a>(
    listed: &[Listed],
    statuses: impl Iterator<Item = &'a Status>,
) -> Result<Option<String>> {
    let mut first_of: HashMap<&Status, usize> = HashMap::with_capacity(listed.len());
    // Only what is one file for the system can be one path, and only these are resolved.
    let mut resolved: HashMap<PathBuf, usize> = HashMap::new();
    let mut second_names = Vec::new();
    let mut addresses: HashSet<(Option<&str>, &Path)> = HashSet::new();
    for (index, status) in statuses.enumerate() {
        // Objects of one content may have one tag: their addresses tell them apart.
        if status.object().is_some() {
            let path = &listed[index].path;
            if !addresses.insert(meant(path)) {
                return Err(Error::Argument(format!("the same object twice: '{}'", shown(path))));
            }
            continue;
        }
        let first = *first_of.entry(status).or_insert(index);
        if first == index {
            continue;
        }
        for index in [first, index] {
            let path = &listed[index].path;
            let canonical =
                path.canonicalize().map_err(|cause| Error::source("can't resolve", path, cause))?;
            let same = *resolved.entry(canonical).or_insert(index);
            if same != index {
                return Err(Error::Argument(format!(
                    "the same file twice: '{}' and '{}'",
                    shown(&listed[same].path),
                    shown(path)
                )));
            }
        }
        second_names.push((first, index));
    }
    Ok(second_names.first().map(|&(first, second)| {
        let others = match second_names.len() - 1 {
            0 => String::new(),
            1 => "; so do those of 1 other name".into(),
            others => format!("; so do those of {others} other names"),
        };
        format!(
            "'{}' and '{}' are one file under two names (a hard link, say), so that its rows are delivered twice{others}",
            shown(&listed[first].path),
            shown(&listed[second].path),
        )
    }))
}

fn expand(entry: &Path, kind: FileKind, tables: &mut Tables, stop: &AtomicBool) -> Result<Vec<PathBuf>> {
    if let Some(scheme) = is_collapsed(entry)? {
        if scheme == "dbfs" {
            let path = shown(entry);
            let mounted = path.trim_start_matches("dbfs:");
            return Err(Error::Argument(format!(
                "'{path}' is a name of Databricks' own: write '/dbfs{mounted}', the path on its machines"
            )));
        }
        return Err(Error::Argument(format!(
            "'{}' is an address that lost a slash, as in pathlib.Path: write it as a string, '{scheme}://...'",
            shown(entry)
        )));
    }
    if entry.as_os_str().is_empty() {
        return Err(Error::Argument("a path is empty".into()));
    }
    let (given, entry) = (entry, absolute(entry)?);
    let base = match std::fs::metadata(&entry) {
        Ok(status) if !status.is_dir() => return Ok(vec![entry]),
        Ok(_) => entry.clone(),
        // A link that leads nowhere is there, and says so when it is opened.
        Err(_) if is_there(&entry)? => return Ok(vec![entry]),
        Err(_) if is_pattern(&entry) => base_of(&entry)?,
        Err(cause) => {
            let hub =
                hub_address(given).map_or(String::new(), |address| format!("; on the hub it is '{address}'"));
            return Err(Error::Missing(format!("no such file: '{}': {cause}{hub}", shown(&entry))));
        }
    };
    let found =
        if base == entry { below(&entry, kind, tables, stop)? } else { matches(&entry, kind, tables, stop)? };
    if !found.is_empty() {
        // A link may lead into a table.
        let real = base.canonicalize().map_err(|cause| Error::source("can't resolve", &base, cause))?;
        for path in found.iter().filter_map(|path| path.parent()).chain([real.as_path()]) {
            tables.refuse(path)?;
        }
    }
    Ok(found)
}

/// The address of what may be meant as a dataset of the Hugging Face hub: `owner/name`.
fn hub_address(given: &Path) -> Option<String> {
    let parts: Vec<_> = given.components().collect();
    let is_name = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    (parts.len() == 2 && is_name && given.extension().is_none())
        .then(|| format!("hf://datasets/{}", shown(given)))
}

/// The scheme of an address as `pathlib` writes it, `s3:/bucket`, with one slash.
fn is_collapsed(entry: &Path) -> Result<Option<&str>> {
    let Some(first) = entry.iter().next() else { return Ok(None) };
    let scheme = first.to_str().and_then(|first| first.strip_suffix(':'));
    match scheme {
        Some(scheme) if !scheme.is_empty() && !is_there(Path::new(first))? => Ok(Some(scheme)),
        _ => Ok(None),
    }
}

/// The directory above the first part that is a pattern.
fn base_of(entry: &Path) -> Result<PathBuf> {
    let mut base = PathBuf::new();
    for part in entry {
        if !means_itself(&base, part)? {
            break;
        }
        base.push(part);
    }
    Ok(base)
}

/// Whether a part of a path is a name, not a pattern: `[old]` is a name where something is called so.
fn means_itself(base: &Path, part: &OsStr) -> Result<bool> {
    if !is_pattern(Path::new(part)) {
        return Ok(true);
    }
    let has_wildcards = part.as_bytes().iter().any(|byte| b"*?".contains(byte));
    if has_wildcards { Ok(false) } else { is_there(&base.join(part)) }
}

/// What to write for a name with brackets that a pattern does not match.
fn about_brackets(entry: &Path, kind: FileKind) -> String {
    if !entry.as_os_str().as_bytes().contains(&b'[') {
        return String::new();
    }
    let suffix = kind.suffixes().first().unwrap_or(&"");
    format!(
        "; [...] in it matches one character: where brackets belong to a name, write \
         glob.escape(directory) + '/*{suffix}'"
    )
}

fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// All files of a kind below a directory that are not left out by their names.
fn below(directory: &Path, of: FileKind, tables: &mut Tables, stop: &AtomicBool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let mut names = Names::default();
        let failed = |cause| Error::source("can't list", &directory, cause);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            check(stop)?;
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            names.see(&name);
            if is_left_out(&name) {
                continue;
            }
            let kind = kind_of(&entry)?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if of.has(&name) {
                let path = entry.path();
                // Only of a link the kind is not known yet.
                if !(kind.is_symlink() && is_directory(&path)?) {
                    found.push(path);
                }
            }
        }
        tables.listed(&directory, names)?;
    }
    Ok(found)
}

fn kind_of(entry: &DirEntry) -> Result<FileType> {
    entry.file_type().map_err(|cause| Error::source("can't read", &entry.path(), cause))
}

/// Whether what is there is a directory, or a link to one.
///
/// # Errors
/// `Source` if the system does not say: of a link that leads nowhere, too.
fn is_directory(path: &Path) -> Result<bool> {
    let status = std::fs::metadata(path).map_err(|cause| Error::source("can't read", path, cause))?;
    Ok(status.is_dir())
}

/// The files that a pattern means; a directory that it meets means the files below it.
fn matches(pattern: &Path, kind: FileKind, tables: &mut Tables, stop: &AtomicBool) -> Result<Vec<PathBuf>> {
    let parts: Vec<&OsStr> = pattern.iter().collect();
    let mut met = Vec::new();
    meet(Path::new(""), &parts, &mut met, tables, stop)?;
    let mut found = Vec::new();
    for path in met {
        if is_directory(&path)? {
            found.extend(below(&path, kind, tables, stop)?);
        } else {
            found.push(path);
        }
    }
    // `**` meets a directory and what lies below it.
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// What the parts of a pattern meet below a base. `**` goes into no link, so that it ends.
fn meet(
    base: &Path,
    parts: &[&OsStr],
    met: &mut Vec<PathBuf>,
    tables: &mut Tables,
    stop: &AtomicBool,
) -> Result<()> {
    let Some((&part, rest)) = parts.split_first() else {
        met.push(base.to_owned());
        return Ok(());
    };
    if means_itself(base, part)? {
        let path = base.join(part);
        return if is_there(&path)? { meet(&path, rest, met, tables, stop) } else { Ok(()) };
    }
    let any_depth = part == "**";
    if any_depth && !rest.is_empty() {
        meet(base, rest, met, tables, stop)?;
    }
    if !is_directory(base)? {
        return Ok(());
    }
    let text = as_text(part);
    let pattern = glob::Pattern::new(if any_depth { "*" } else { &text }).map_err(|cause| {
        Error::Argument(format!("the pattern '{}' can't be read: {cause}", shown(Path::new(part))))
    })?;
    let mut names = Names::default();
    let failed = |cause| Error::source("can't list", base, cause);
    for entry in std::fs::read_dir(base).map_err(failed)? {
        check(stop)?;
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        names.see(&name);
        // A part that spells the first character out means such names.
        let is_meant = !is_left_out(&name) || is_left_out(part);
        if !is_meant || !pattern.matches(&as_text(&name)) {
            continue;
        }
        let path = entry.path();
        let kind = kind_of(&entry)?;
        if any_depth && kind.is_dir() {
            meet(&path, parts, met, tables, stop)?;
        } else if rest.is_empty() {
            if !is_checksum(&name) {
                met.push(path);
            }
        } else if !any_depth && (kind.is_dir() || (kind.is_symlink() && is_directory(&path)?)) {
            meet(&path, rest, met, tables, stop)?;
        }
    }
    tables.listed(base, names)
}

/// A name as characters, also where it is no text: a byte that is none stands as one of a plane for private use.
fn as_text(name: &OsStr) -> Cow<'_, str> {
    const NO_TEXT: u32 = 0x10_FF00;
    if let Some(text) = name.to_str() {
        return text.into();
    }
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|&byte| char::from_u32(NO_TEXT + u32::from(byte))));
    }
    text.into()
}

/// The absolute path without `.` and `..`, links not resolved.
fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(|cause| Error::source("can't resolve", path, cause))?;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_can_be_stopped() {
        let disks = FileSystem::default();
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        for (named, files) in [(source.join("src/*.rs"), true), (source.to_owned(), false)] {
            assert_eq!(list(&disks, std::slice::from_ref(&named), FileKind::Parquet, &go).is_ok(), files);
            assert_eq!(list(&disks, &[named], FileKind::Parquet, &stop), Err(Error::Interrupted));
        }
    }
}
