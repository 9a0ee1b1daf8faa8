//! What is said of a directory that has no file of the kind that is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dataset::file_kind::{FileKind, is_left_out};
use crate::error::{plural, shown};
use crate::format::metadata::lookalike::{LOOKED_AT_BYTES, advice_for_names, looks_like};

/// The most names of a directory that are looked at.
const MOST_SEEN: usize = 10_000;

/// The most kinds of files that are named.
const MOST_KINDS: usize = 3;

/// How Parquet files begin and end.
const PARQUET: &[u8] = b"PAR1";

/// What is in names of directories whose files are not done.
const UNFINISHED: [&str; 4] = ["temp", "tmp", "staging", "progress"];

/// Files of one sort.
#[derive(Debug, Clone)]
struct Sort {
    count: usize,
    /// The path of the first by its name, below the directory.
    first: PathBuf,
}

/// The files of a directory that has none of a kind; objects of a store, too.
#[derive(Debug)]
pub(crate) struct OtherFiles<'a> {
    directory: &'a Path,
    kind: FileKind,
    /// By how their names end.
    ends: BTreeMap<String, Sort>,
    /// Those of the kind, left out by their names.
    left_out: Option<Sort>,
    /// Others that are left out.
    beside: Option<Sort>,
    seen: usize,
}

/// What a file of some sort is.
enum Found {
    /// It can be read.
    OfKind,
    /// What it looks like, and what to do.
    Other(&'static str, &'static str),
}

impl<'a> OtherFiles<'a> {
    /// Those of a directory of which nothing was seen yet.
    pub(crate) fn new(directory: &'a Path, kind: FileKind) -> Self {
        Self { directory, kind, ends: BTreeMap::new(), left_out: None, beside: None, seen: 0 }
    }

    /// Looks at one more, by its path below the directory.
    pub(crate) fn see(&mut self, path: &Path) {
        let Some(name) = path.file_name() else { return };
        self.seen += 1;
        let is_out = path.iter().any(is_left_out);
        let sort = match (is_out, self.kind.has(name)) {
            (true, true) => self.left_out.get_or_insert_with(|| Sort::of(path)),
            (true, false) => self.beside.get_or_insert_with(|| Sort::of(path)),
            (false, _) => {
                let end = Path::new(name).extension().map(|end| format!(".{}", end.to_string_lossy()));
                self.ends.entry(end.unwrap_or_default()).or_insert_with(|| Sort::of(path))
            }
        };
        sort.count += 1;
        if path < sort.first {
            path.clone_into(&mut sort.first);
        }
    }

    /// What there is in a local directory, and what to do: what is read of it by another name, or what it looks like.
    pub(crate) fn of_disk(directory: &'a Path, kind: FileKind) -> String {
        let mut all = Self::new(directory, kind);
        let mut open = vec![PathBuf::new()];
        while let Some(below) = open.pop() {
            let Ok(entries) = std::fs::read_dir(directory.join(&below)) else { continue };
            for entry in entries.flatten().take(MOST_SEEN - all.seen) {
                let path = below.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(path),
                    _ if entry.path().is_file() => all.see(&path),
                    _ => {}
                }
            }
        }
        if all.seen == 0 {
            return ", which has no file at all".into();
        }
        all.hint(|sort| found_on_disk(&directory.join(&sort.first), kind))
    }

    /// The same of objects that were seen, of which nothing is read.
    pub(crate) fn of_store(&self) -> String {
        self.hint(|sort| found_by_name(&sort.first))
    }

    fn hint(&self, look: impl Fn(&Sort) -> Option<Found>) -> String {
        if let Some(sort) = &self.left_out {
            return self.about_left_out(sort);
        }
        if let (true, Some(sort)) = (self.ends.is_empty(), &self.beside) {
            let name = shown(&sort.first);
            let ended = if name == "_SUCCESS" { ": the job that wrote it left no rows here" } else { "" };
            return format!("; it has no file but {}{ended}", sort.named());
        }
        let mut sorts: Vec<(&String, &Sort)> = self.ends.iter().collect();
        sorts.sort_by_key(|(_, sort)| std::cmp::Reverse(sort.count));
        let kinds: Vec<String> = sorts.iter().take(MOST_KINDS).map(|(end, sort)| sort.counted(end)).collect();
        if kinds.is_empty() {
            return String::new();
        }
        let rest: usize = sorts.iter().skip(MOST_KINDS).map(|(_, sort)| sort.count).sum();
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        let least = if self.seen >= MOST_SEEN { "at least " } else { "" };
        let mut advice = String::new();
        for (end, sort) in sorts.into_iter().take(MOST_KINDS) {
            let name = shown(&sort.first);
            match look(sort) {
                Some(Found::OfKind) => {
                    advice =
                        format!("; '{name}' is one: write '{}' to read such files", self.pattern(sort, end));
                    break;
                }
                Some(Found::Other(what, way)) if advice.is_empty() => {
                    advice = format!("; '{name}' looks like {what}: {way}");
                }
                _ => {}
            }
        }
        format!("; it has {least}{}{more}{advice}", kinds.join(", "))
    }

    /// A pattern of all files that end as those of a sort.
    fn pattern(&self, sort: &Sort, end: &str) -> String {
        let deep = if sort.first.iter().nth(1).is_some() { "**/" } else { "" };
        format!("{}/{deep}*{end}", shown(self.directory).trim_end_matches('/'))
    }

    /// What is said of files of the kind whose names, or those of directories around them, leave them out.
    fn about_left_out(&self, sort: &Sort) -> String {
        let mut path = self.directory.to_owned();
        for part in &sort.first {
            path.push(part);
            if is_left_out(part) {
                break;
            }
        }
        if path == self.directory.join(&sort.first) {
            let end = sort.first.extension().unwrap_or_default().to_string_lossy();
            let is_dot = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."));
            let (first, directory) = (if is_dot { "." } else { "_" }, path.parent().map(shown));
            return format!(
                "; it has {}: names that begin with '_' or '.' are left out. Write '{}/{first}*.{end}' to read such \
                 files",
                sort.named(),
                directory.unwrap_or_default()
            );
        }
        let text = shown(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let why = if UNFINISHED.iter().any(|part| name.contains(part)) {
            "the job that writes them is not done, or failed".to_owned()
        } else {
            format!("names that begin with '_' or '.' are left out. Write '{text}' to read them")
        };
        format!("; '{text}' has {}: {why}", sort.counted("such"))
    }
}

impl Sort {
    fn of(path: &Path) -> Self {
        Self { count: 0, first: path.to_owned() }
    }

    /// The first, and how many there are beside it.
    fn named(&self) -> String {
        let more = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        format!("'{}'{more}", shown(&self.first))
    }

    fn counted(&self, end: &str) -> String {
        match end {
            "" => format!("{} without an ending", plural(self.count as u64, "file")),
            end => plural(self.count as u64, &format!("{end} file")),
        }
    }
}

/// What a file is, as far as its name says it.
fn found_by_name(path: &Path) -> Option<Found> {
    advice_for_names(path).map(|(what, advice)| Found::Other(what, advice))
}

/// What a local file is, by its bytes.
fn found_on_disk(path: &Path, kind: FileKind) -> Option<Found> {
    let mut file = File::open(path).ok()?;
    let mut start = Vec::new();
    file.by_ref().take(LOOKED_AT_BYTES).read_to_end(&mut start).ok()?;
    if start.is_empty() {
        return found_by_name(path);
    }
    if start.starts_with(PARQUET) {
        let mut end = [0; PARQUET.len()];
        file.seek(SeekFrom::End(-4)).ok()?;
        file.read_exact(&mut end).ok()?;
        if end == PARQUET {
            return Some(match kind {
                FileKind::Parquet => Found::OfKind,
                FileKind::Arrow => {
                    Found::Other("Parquet", "write fr.ParquetDataset(paths) instead of ArrowDataset")
                }
            });
        }
    }
    looks_like(&start).map(|(what, advice)| Found::Other(what, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(paths: &[&str]) -> String {
        let mut others = OtherFiles::new(Path::new("s3://b/d"), FileKind::Parquet);
        for path in paths {
            others.see(Path::new(path));
        }
        others.of_store()
    }

    #[test]
    fn what_a_directory_has_is_counted_and_nothing_is_advised_that_can_not_be_read() {
        let csv = "; 'a.csv' looks like a text of values: write it as Parquet first, as with pyarrow.parquet.write_table";
        for (paths, text) in [
            (&["b.csv", "a.csv", "x.lock"][..], format!("; it has 2 .csv files, 1 .lock file{csv}")),
            (&["a.lock"], "; it has 1 .lock file".into()),
            (&["README"], "; it has 1 file without an ending".into()),
            (
                &["a.a", "b.b", "c.c", "d.d", "e.e"],
                "; it has 1 .a file, 1 .b file, 1 .c file, and 2 more".into(),
            ),
            (
                &["_SUCCESS"],
                "; it has no file but '_SUCCESS': the job that wrote it left no rows here".into(),
            ),
            (&[], String::new()),
        ] {
            assert_eq!(said(paths), text);
        }
        assert!(
            said(&["_temporary/0/a.parquet", "a.csv"])
                .ends_with("the job that writes them is not done, or failed")
        );
        assert!(
            said(&["day=1/_a.parquet"]).ends_with("Write 's3://b/d/day=1/_*.parquet' to read such files")
        );
        assert!(said(&["_old/a.parquet"]).ends_with("Write 's3://b/d/_old' to read them"));
        assert!(said(&["a.arrow"]).contains("write fr.ArrowDataset(paths) instead of ParquetDataset"));
    }
}
