//! From what the user named to the files of the dataset, in canonical order.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result, check};

/// A file of the dataset, before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The absolute path, links not resolved.
    pub path: PathBuf,
    /// The bytes of the path relative to the common root of all files.
    pub relative: Vec<u8>,
}

/// The files that `named` means, in canonical order: by the bytes of the path relative to their
/// common root.
///
/// A file means itself, whatever its name. A directory means all files below it that end in
/// `.parquet`, names that begin with `_` or `.` left out. Anything else is a glob pattern: `*`, `?`,
/// `[...]`, and `**` for any number of directories (links to directories not followed); names that begin
/// with `_` or `.`, and checksum files (`.crc`), do not match a wildcard.
///
/// # Errors
/// `Source` if an entry of `named` gives no file, or a directory can't be read; `Argument` if nothing
/// is named, or an address is (only local files can be read); `Interrupted` if `stop` is set on the way.
pub fn list(named: &[PathBuf], stop: &AtomicBool) -> Result<Vec<Listed>> {
    if named.is_empty() {
        return Err(Error::Argument("no path is given".into()));
    }
    let mut paths = Vec::new();
    for entry in named {
        let found = expand(entry, stop)?;
        if found.is_empty() {
            let what =
                if entry.is_dir() { "no file that ends in .parquet lies below" } else { "no file matches" };
            return Err(Error::Source(format!("{what} '{}'", entry.display())));
        }
        paths.extend(found);
    }
    let root = common_root(&paths);
    let mut files: Vec<Listed> = paths
        .into_iter()
        .map(|path| {
            let relative = path.strip_prefix(&root).unwrap_or(&path).as_os_str().as_bytes().to_vec();
            Listed { path, relative }
        })
        .collect();
    files.sort_by(|a, b| a.relative.cmp(&b.relative));
    Ok(files)
}

/// Refuses the same file under two paths. `nodes` are what the system says of each (as far as it does): its
/// device and number.
///
/// # Errors
/// `Argument` if a file comes twice; `Source` if a path can't be resolved.
pub fn check_distinct(listed: &[Listed], nodes: impl Iterator<Item = Option<(u64, u64)>>) -> Result<()> {
    let mut first_of: HashMap<(u64, u64), usize> = HashMap::with_capacity(listed.len());
    // Only what is one file for the system can be one path, and only these are resolved: hard links stay two.
    let mut resolved: HashMap<PathBuf, usize> = HashMap::new();
    for (index, node) in nodes.enumerate() {
        let Some(node) = node else { continue };
        let first = *first_of.entry(node).or_insert(index);
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
                    listed[same].path.display(),
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

fn expand(entry: &Path, stop: &AtomicBool) -> Result<Vec<PathBuf>> {
    if entry.as_os_str().as_bytes().windows(3).any(|bytes| bytes == b"://") {
        return Err(Error::Argument(format!(
            "only local files can be read, found the address '{}'",
            entry.display()
        )));
    }
    if entry.as_os_str().is_empty() {
        return Err(Error::Argument("a path is empty".into()));
    }
    let entry = absolute(entry)?;
    match std::fs::metadata(&entry) {
        Ok(status) if status.is_dir() => below(&entry, stop),
        Ok(_) => Ok(vec![entry]),
        Err(_) if is_pattern(&entry) => matches(&entry, stop),
        // Neither there nor a pattern. A dangling link is there, and says so when it is opened.
        Err(_) if entry.is_symlink() => Ok(vec![entry]),
        Err(cause) => Err(Error::source("no such file:", &entry, cause)),
    }
}

fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// All files below a directory that end in `.parquet` and are not left out by their names.
fn below(directory: &Path, stop: &AtomicBool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let failed = |cause| Error::source("can't list", &directory, cause);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            check(stop)?;
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if is_left_out(&name) {
                continue;
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if name.as_bytes().ends_with(b".parquet") {
                let path = entry.path();
                // Only of a link the kind is not known yet.
                if !(kind.is_symlink() && path.is_dir()) {
                    found.push(path);
                }
            }
        }
    }
    Ok(found)
}

fn is_left_out(name: &OsStr) -> bool {
    matches!(name.as_bytes().first(), Some(b'_' | b'.'))
}

/// The files that a pattern means; a directory that it meets means the files below it.
fn matches(pattern: &Path, stop: &AtomicBool) -> Result<Vec<PathBuf>> {
    let parts: Vec<&OsStr> = pattern.iter().collect();
    let mut met = Vec::new();
    meet(Path::new(""), &parts, &mut met, stop)?;
    let mut found = Vec::new();
    for path in met {
        if path.is_dir() {
            found.extend(below(&path, stop)?);
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
fn meet(base: &Path, parts: &[&OsStr], met: &mut Vec<PathBuf>, stop: &AtomicBool) -> Result<()> {
    let Some((&part, rest)) = parts.split_first() else {
        met.push(base.to_owned());
        return Ok(());
    };
    if !is_pattern(Path::new(part)) {
        let path = base.join(part);
        return if path.symlink_metadata().is_ok() { meet(&path, rest, met, stop) } else { Ok(()) };
    }
    let any_depth = part == "**";
    if any_depth && !rest.is_empty() {
        meet(base, rest, met, stop)?;
    }
    if !base.is_dir() {
        return Ok(());
    }
    let text = part
        .to_str()
        .ok_or_else(|| Error::Argument(format!("the pattern '{}' is not valid UTF-8", part.display())))?;
    let pattern = glob::Pattern::new(if any_depth { "*" } else { text })
        .map_err(|cause| Error::Argument(format!("the pattern '{text}' can't be read: {cause}")))?;
    let failed = |cause| Error::source("can't list", base, cause);
    for entry in std::fs::read_dir(base).map_err(failed)? {
        check(stop)?;
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        // A part that spells the first character out means such names.
        let is_meant = !is_left_out(&name) || is_left_out(part);
        if !is_meant || !name.to_str().is_some_and(|name| pattern.matches(name)) {
            continue;
        }
        let path = entry.path();
        let is_real_directory = entry.file_type().map_err(failed)?.is_dir();
        if any_depth && is_real_directory {
            meet(&path, parts, met, stop)?;
        } else if rest.is_empty() {
            if !name.as_bytes().ends_with(b".crc") {
                met.push(path);
            }
        } else if !any_depth && path.is_dir() {
            meet(&path, rest, met, stop)?;
        }
    }
    Ok(())
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

/// The longest directory that all paths lie in.
fn common_root(paths: &[PathBuf]) -> PathBuf {
    let mut parents = paths.iter().filter_map(|path| path.parent());
    let mut root = parents.next().map(Path::to_owned).unwrap_or_default();
    for parent in parents {
        while !parent.starts_with(&root) && root.pop() {}
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_can_be_stopped() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        for (named, files) in [(source.join("src/*.rs"), true), (source.to_owned(), false)] {
            assert_eq!(list(std::slice::from_ref(&named), &go).is_ok(), files);
            assert_eq!(list(&[named], &stop), Err(Error::Interrupted));
        }
    }
}
