//! Directories of tables, whose files are not all of their present version.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, shown};

/// What keeps a log of which of a directory's files are its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Delta,
    Hudi,
    Iceberg,
}

const DELTA_LOG: &str = "_delta_log";
const HUDI_LOG: &str = ".hoodie";
const ICEBERG_LOG: &str = "metadata";

/// The directories that were looked into.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    table_of: HashMap<PathBuf, Option<Table>>,
    /// Those that lie in no table, however far above them its directory may be.
    outside: HashSet<PathBuf>,
}

impl Tables {
    /// Takes note of a directory that was listed, and of the table that its entries tell.
    ///
    /// # Errors
    /// `Source` if the table's own directory can't be read.
    pub(crate) fn listed(&mut self, directory: &Path, names: Names) -> Result<()> {
        let table = names.table(directory)?;
        self.table_of.insert(directory.to_owned(), table);
        Ok(())
    }

    /// Refuses a directory that lies in a table.
    ///
    /// # Errors
    /// `Data`, with the line that gives the files of the table's present version; `Source` if a directory can't be
    /// asked.
    pub(crate) fn refuse(&mut self, directory: &Path) -> Result<()> {
        let mut asked = Vec::new();
        for directory in directory.ancestors().take_while(|&above| !self.outside.contains(above)) {
            let table = match self.table_of.get(directory) {
                Some(&table) => table,
                None => Names::asked(directory)?.table(directory)?,
            };
            if let Some(table) = table {
                return Err(table.refused(directory));
            }
            asked.push(directory.to_owned());
        }
        self.outside.extend(asked);
        Ok(())
    }
}

/// Which of the names that tell a table a directory has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Names {
    has_delta: bool,
    has_hudi: bool,
    has_iceberg: bool,
}

impl Names {
    /// Looks at one name more.
    pub(crate) fn see(&mut self, name: &OsStr) {
        self.has_delta |= name == DELTA_LOG;
        self.has_hudi |= name == HUDI_LOG;
        self.has_iceberg |= name == ICEBERG_LOG;
    }

    /// Asks for each of them in a directory that was not listed.
    fn asked(directory: &Path) -> Result<Self> {
        let has = |name| is_there(&directory.join(name));
        Ok(Self { has_delta: has(DELTA_LOG)?, has_hudi: has(HUDI_LOG)?, has_iceberg: has(ICEBERG_LOG)? })
    }

    /// The table that they tell.
    fn table(self, directory: &Path) -> Result<Option<Table>> {
        Ok(match self {
            Self { has_delta: true, .. } => Some(Table::Delta),
            Self { has_hudi: true, .. } => Some(Table::Hudi),
            Self { has_iceberg: true, .. } if is_iceberg(directory)? => Some(Table::Iceberg),
            _ => None,
        })
    }
}

impl Table {
    /// What tells a table where a directory holds it, from the one that is looked for first.
    pub(crate) const LOGS: [(Self, &str); 3] =
        [(Self::Delta, DELTA_LOG), (Self::Hudi, HUDI_LOG), (Self::Iceberg, ICEBERG_LOG)];

    /// The table that an object belongs to, by what follows its directory: `_delta_log/0.json`, say.
    pub(crate) fn of_log(log: &str, rest: &str) -> Option<Self> {
        let (table, _) = Self::LOGS.into_iter().find(|(_, name)| *name == log)?;
        (table != Self::Iceberg || is_iceberg_metadata(rest.as_bytes())).then_some(table)
    }

    /// The error for a directory that is one.
    pub(crate) fn refused(self, directory: &Path) -> Error {
        let root = shown(directory);
        let (name, what) = match self {
            Self::Delta => (
                "a Delta",
                format!("write ParquetDataset('delta://{root}', ...), which reads its present version"),
            ),
            Self::Iceberg => (
                "an Iceberg",
                "write ParquetDataset('iceberg://catalog/namespace.table', ...), or pass its pyiceberg.table.Table"
                    .into(),
            ),
            Self::Hudi => (
                "a Hudi",
                format!(
                    "pass the files of its present version, as ParquetDataset([f'{root}/\
                     {{s.base_file_relative_path()}}' for s in HudiTable('{root}').get_file_slices()], ...)"
                ),
            ),
        };
        Error::data(format!(
            "'{root}' is {name} table, among whose files are those that it has removed or rewritten: {what}"
        ))
    }
}

/// Whether an Iceberg table's metadata lie in a directory's `metadata`.
fn is_iceberg(directory: &Path) -> Result<bool> {
    let metadata = directory.join(ICEBERG_LOG);
    let failed = |cause| Error::source("can't list", &metadata, cause);
    if !std::fs::metadata(&metadata).map_err(failed)?.is_dir() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(&metadata).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if is_iceberg_metadata(name.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_iceberg_metadata(name: &[u8]) -> bool {
    name.strip_suffix(b".gz").unwrap_or(name).ends_with(b".metadata.json")
}

/// Whether a path is there, if only as a link that leads nowhere. What lies below a file is not.
///
/// # Errors
/// `Source` if the system gives no answer.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(cause) if matches!(cause.kind(), NotFound | NotADirectory) => Ok(false),
        Err(cause) => Err(Error::source("can't read", path, cause)),
    }
}
