//! A file or object that keeps what was worked out, so that another process need not do it again.
//!
//! It has a line that names format and version, then the hash of what follows, then that. It is used only if line and
//! hash are right. A new one is written to a draft beside it, and then moved into its place: so any number of processes
//! may read and write it at once. Whoever writes the draft has locked it. A draft that nobody has locked is of a process that
//! was killed, and goes with the next opening.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::source::file_system::FileSystem;

const CHECK_BYTES: usize = blake3::OUT_LEN;

/// A larger file is none of ours: this is room for millions of files.
const MAX_BYTES: u64 = 2 << 30;

/// How often the draft may be moved away by others between opening and locking it.
const MAX_TRIES: u32 = 100;

/// What a file keeps.
#[derive(Debug)]
pub struct FileForm {
    /// In words.
    pub what: &'static str,
    /// The first line of its present version.
    pub magic: &'static [u8],
    /// How the files of all versions begin.
    pub name: &'static [u8],
}

/// Where something is kept.
#[derive(Debug, Clone, Copy)]
pub struct KeptFile<'a> {
    /// The file, or the address of an object.
    pub path: &'a Path,
    /// What it keeps.
    pub form: &'static FileForm,
}

/// What is in its place.
pub struct Held {
    /// Its bytes; empty if there are none.
    pub bytes: Vec<u8>,
    /// Why the object that is there is not to be replaced. A file is looked at when it is.
    refusal: Option<Error>,
}

impl KeptFile<'_> {
    /// What is there; nothing if it can't be read, or is too large.
    ///
    /// # Errors
    /// `Argument` if its address is one that nothing reads; `Interrupted` once `stop` is set.
    pub fn read(self, files: &FileSystem, stop: &AtomicBool) -> Result<Held> {
        let Some(store) = files.store_of(self.path)? else {
            self.clear_draft();
            return Ok(Held { bytes: self.try_read().unwrap_or_default(), refusal: None });
        };
        let found = match store.whole(self.path, MAX_BYTES, stop) {
            Err(cause @ (Error::Argument(_) | Error::Interrupted)) => return Err(cause),
            found => found.map(Option::unwrap_or_default).map_err(|cause| self.failed(cause)),
        };
        let kept = found.and_then(|bytes| match self.kind_of(&bytes) {
            Some(kind) => Err(self.failed(kind)),
            None => Ok(bytes),
        });
        let (bytes, refusal) = kept.map_or_else(|cause| (Vec::new(), Some(cause)), |bytes| (bytes, None));
        Ok(Held { bytes, refusal })
    }

    /// What bytes of it hold; `None` if they are damaged, or of something else.
    #[must_use]
    pub fn content<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (check, content) = bytes.strip_prefix(self.form.magic)?.split_at_checked(CHECK_BYTES)?;
        (blake3::hash(content).as_bytes() == check).then_some(content)
    }

    /// The bytes of a file, now.
    #[must_use]
    pub fn try_read(self) -> Option<Vec<u8>> {
        // Checked before opening: opening a pipe waits for its writer.
        let status = std::fs::metadata(self.path).ok()?;
        if !status.is_file() || status.len() > MAX_BYTES {
            return None;
        }
        let mut file = File::open(self.path).ok()?;
        let mut bytes = vec![0; self.form.magic.len()];
        file.read_exact(&mut bytes).ok()?;
        if bytes != self.form.magic {
            return None;
        }
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Replaces what is there. `content` makes it of the bytes that are there by now. If another process is writing just then,
    /// nothing is done.
    ///
    /// # Errors
    /// `Source` if it can't be written, or what is there is none of ours; those of `content`.
    pub fn write(
        self,
        content: impl FnOnce(&[u8]) -> Result<Vec<u8>>,
        (files, held, stop): (&FileSystem, Held, &AtomicBool),
    ) -> Result<()> {
        if let Some(store) = files.store_of(self.path)? {
            if let Some(refusal) = held.refusal {
                return Err(refusal);
            }
            let whole = self.whole(&content(&held.bytes)?);
            return store.put(self.path, whole, stop).map_err(|cause| match cause {
                Error::Interrupted => cause,
                cause => self.failed(cause),
            });
        }
        if let Some(kind) = self.other().map_err(|cause| self.failed(cause))? {
            return Err(self.failed(kind));
        }
        let draft = self.draft()?;
        let Some(mut file) = self.locked(&draft)? else { return Ok(()) };
        let bytes = self.try_read().unwrap_or_default();
        let written = content(&bytes).and_then(|content| {
            let written = file.set_len(0).and_then(|()| file.write_all(&self.whole(&content)));
            let kept =
                written.and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&draft, self.path));
            kept.map_err(|cause| self.failed(cause))
        });
        written.inspect_err(|_| drop(std::fs::remove_file(&draft)))
    }

    fn whole(&self, content: &[u8]) -> Vec<u8> {
        [self.form.magic, blake3::hash(content).as_bytes(), content].concat()
    }

    /// That it can't be written, for this reason.
    #[must_use]
    pub fn failed(&self, cause: impl std::fmt::Display) -> Error {
        Error::source(&format!("can't write {}", self.form.what), self.path, cause)
    }

    /// What a file is that was named by mistake: a device, or what something else wrote. It is left as it is.
    ///
    /// # Errors
    /// As the system says.
    pub fn other(&self) -> std::io::Result<Option<&'static str>> {
        let Ok(status) = std::fs::metadata(self.path) else { return Ok(None) };
        if !status.is_file() {
            return Ok(Some("it is not a regular file"));
        }
        let mut start = Vec::new();
        File::open(self.path)?.take(self.form.name.len() as u64).read_to_end(&mut start)?;
        Ok(self.kind_of(&start))
    }

    /// What bytes are, by their beginning, if they are none of ours.
    fn kind_of(&self, bytes: &[u8]) -> Option<&'static str> {
        let start = &bytes[..bytes.len().min(self.form.name.len())];
        // The file may have been cut off.
        if self.form.name.starts_with(start) {
            return None;
        }
        let is_parquet = start.starts_with(b"PAR1");
        Some(if is_parquet {
            "it is a parquet file"
        } else {
            "it is a file of something else; remove it, or name another"
        })
    }

    /// Where a new one is written.
    fn draft(&self) -> Result<PathBuf> {
        let name = self.path.file_name().ok_or_else(|| self.failed("it has no file name"))?;
        let mut draft = std::ffi::OsString::from(".");
        draft.push(name);
        draft.push(".tmp");
        Ok(self.path.with_file_name(draft))
    }

    /// The draft, which nobody else writes; `None` if somebody does.
    fn locked(&self, draft: &Path) -> Result<Option<File>> {
        for _ in 0..MAX_TRIES {
            // Opening a pipe would wait for its reader.
            if std::fs::symlink_metadata(draft).is_ok_and(|there| !there.is_file()) {
                return Err(self.failed("its draft is not a regular file"));
            }
            let mut how = OpenOptions::new();
            let file = how.write(true).create(true).truncate(false).open(draft);
            let file = file.map_err(|cause| self.failed(cause))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Where there are no locks, the hash tells what two have written at once.
                Err(TryLockError::Error(cause)) if cause.kind() != ErrorKind::Unsupported => {
                    return Err(self.failed(cause));
                }
                _ => {}
            }
            if is_at(&file, draft) {
                return Ok(Some(file));
            }
        }
        Err(self.failed("others move its draft away"))
    }

    /// Removes the draft of a process that was killed.
    fn clear_draft(&self) {
        let Ok(draft) = self.draft() else { return };
        if !std::fs::symlink_metadata(&draft).is_ok_and(|there| there.is_file()) {
            return;
        }
        let Ok(file) = OpenOptions::new().write(true).open(&draft) else { return };
        if file.try_lock().is_ok() && is_at(&file, &draft) {
            drop(std::fs::remove_file(&draft));
        }
    }
}

/// Whether a path still names an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let node = |status: std::fs::Metadata| (status.dev(), status.ino());
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(own), Ok(there)) => node(own) == node(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FORM: FileForm = FileForm { what: "a test", magic: b"kept 2\n", name: b"kept " };

    fn names(folder: &Path) -> Vec<String> {
        let each = std::fs::read_dir(folder).unwrap();
        let mut found: Vec<_> = each.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        found
    }

    #[test]
    fn what_is_written_is_read_and_a_draft_of_the_dead_goes() {
        let folder = std::env::temp_dir().join(format!("fastresume-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        let kept = KeptFile { path: &path, form: &FORM };
        let (files, go) = (FileSystem::default(), AtomicBool::new(false));
        let held = || kept.read(&files, &go).unwrap();
        assert!(held().bytes.is_empty());
        kept.write(|_| Ok(b"one".to_vec()), (&files, held(), &go)).unwrap();
        let two = |bytes: &[u8]| Ok([kept.content(bytes).unwrap(), b" two"].concat());
        std::fs::write(folder.join(".file.tmp"), "what a killed process left").unwrap();
        kept.write(two, (&files, Held { bytes: Vec::new(), refusal: None }, &go)).unwrap();
        assert_eq!(kept.content(&held().bytes), Some(&b"one two"[..]));
        std::fs::write(folder.join(".file.tmp"), "what a killed process left").unwrap();
        let mut bytes = held().bytes;
        assert_eq!(names(&folder), ["file"]);
        // Who writes just then has locked the draft: it stays, and nothing is written beside it.
        let other = kept.locked(&folder.join(".file.tmp")).unwrap().unwrap();
        kept.write(|_| Ok(Vec::new()), (&files, held(), &go)).unwrap();
        assert_eq!((kept.content(&held().bytes), names(&folder).len()), (Some(&b"one two"[..]), 2));
        drop(other);
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(kept.content(&bytes), None);
        assert!(kept.write(|_| Err(Error::data("no")), (&files, held(), &go)).is_err());
        assert_eq!(names(&folder), ["file"]);
        std::fs::write(&path, "PAR1").unwrap();
        let refused = kept.write(|_| Ok(Vec::new()), (&files, held(), &go)).unwrap_err().to_string();
        assert!(refused.contains("can't write a test") && refused.contains("parquet"), "{refused}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
