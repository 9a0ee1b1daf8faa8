//! How many bytes the blocks of a directory have, as all processes count them that share it.
//!
//! The count is a file, changed under a lock of the system. Every use opens that file anew: so threads exclude each other,
//! too, and a forked child inherits no lock of its parent's.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whoever holds the lock writes a few bytes: one that has not got it after so many tries never will.
const TRIES: u32 = 400;

const WAIT: Duration = Duration::from_millis(5);

/// The count of a directory.
#[derive(Debug)]
pub struct Account {
    path: PathBuf,
}

/// What became of a block that was to be kept.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    Yes,
    WasThere,
    /// There is no room.
    No,
}

impl Account {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Makes the count what `counted` tells, where there is none.
    ///
    /// # Errors
    /// As the system says.
    pub fn begin(&self, counted: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        let count = Locked::take(&self.path)?;
        match count.get()? {
            Some(_) => Ok(()),
            None => count.set(counted()?),
        }
    }

    /// The count as it is read without the lock; none if there is none, or it is changed at this moment.
    pub fn used(&self) -> Option<u64> {
        // Looked at before it is opened: to open a pipe waits for its writer.
        fs::metadata(&self.path).ok().filter(fs::Metadata::is_file)?;
        Locked(File::open(&self.path).ok()?).get().ok().flatten()
    }

    /// Gives a block's file its name, if there is room for it below `limit`.
    ///
    /// # Errors
    /// As the system says; `NotFound` if there is no count.
    pub fn keep(&self, written: &Path, place: &Path, bytes: u64, limit: Option<u64>) -> io::Result<Kept> {
        let count = Locked::take(&self.path)?;
        if place.exists() {
            return Ok(Kept::WasThere);
        }
        let used = count.get()?.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the count is gone"))?;
        if limit.is_some_and(|limit| used.saturating_add(bytes) > limit) {
            return Ok(Kept::No);
        }
        // First the count: a process that is killed here leaves one that is too high, and no directory that is too large.
        count.set(used.saturating_add(bytes))?;
        let renamed = fs::rename(written, place).or_else(|cause| {
            let above = place.parent().filter(|_| cause.kind() == ErrorKind::NotFound).ok_or(cause)?;
            fs::create_dir_all(above)?;
            fs::rename(written, place)
        });
        match renamed {
            Ok(()) => Ok(Kept::Yes),
            Err(cause) => count.set(used).and(Err(cause)),
        }
    }

    /// Removes a block's file, for which at most so many bytes were counted, however many it has now.
    ///
    /// # Errors
    /// As the system says.
    pub fn remove(&self, place: &Path, bytes: u64) -> io::Result<()> {
        let count = Locked::take(&self.path)?;
        let found = match fs::metadata(place) {
            // Another process was faster.
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?.len(),
        };
        fs::remove_file(place)?;
        match count.get()? {
            Some(used) => count.set(used.saturating_sub(found.min(bytes))),
            None => Ok(()),
        }
    }

    /// Puts right a count that was `found`, after `counted` has looked. What others keep meanwhile counts twice at most.
    ///
    /// # Errors
    /// As the system says.
    pub fn correct(&self, found: u64, counted: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        // It takes long where there are many blocks: nobody waits for it.
        let counted = counted()?;
        let count = Locked::take(&self.path)?;
        let since = count.get()?.unwrap_or(found).saturating_sub(found);
        count.set(counted.saturating_add(since))
    }
}

/// The count's file, which nobody else changes.
struct Locked(File);

impl Locked {
    fn take(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
                Err(TryLockError::Error(cause)) => return Err(cause),
            }
        }
        Err(io::Error::new(ErrorKind::WouldBlock, "another process does not let go of its lock"))
    }

    /// The count, if there is one: it is written twice, the second time with all bits turned.
    fn get(&self) -> io::Result<Option<u64>> {
        let mut both = [0; 16];
        match self.0.read_exact_at(&mut both, 0) {
            Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let both = u128::from_le_bytes(both);
        let [low, high] = [both, both >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)));
        Ok(low.ok().filter(|low| high == Ok(!low)))
    }

    fn set(&self, count: u64) -> io::Result<()> {
        let both = u128::from(count) | (u128::from(!count) << 64);
        self.0.write_all_at(&both.to_le_bytes(), 0)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // By name: a child that was forked meanwhile holds a copy of the file, which would hold the lock.
        drop(self.0.unlock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_and_kept_below_the_limit() {
        let directory = std::env::temp_dir().join(format!("fastresume-account-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let account = Account::new(directory.join("used"));
        account.begin(|| Ok(0)).unwrap();
        let keep = |name: &str| {
            let written = directory.join("written");
            fs::write(&written, [0; 40]).unwrap();
            account.keep(&written, &directory.join("blocks").join(name), 40, Some(100)).unwrap()
        };
        assert_eq!(keep("a"), Kept::Yes);
        assert_eq!(keep("a"), Kept::WasThere);
        assert_eq!(keep("b"), Kept::Yes);
        assert_eq!(keep("c"), Kept::No);
        // Somebody has made it longer.
        fs::write(directory.join("blocks/a"), [0; 200]).unwrap();
        account.remove(&directory.join("blocks/a"), 40).unwrap();
        account.remove(&directory.join("blocks/a"), 40).unwrap();
        assert_eq!(keep("c"), Kept::Yes);
        account.correct(80, || Ok(20)).unwrap();
        assert_eq!(keep("d"), Kept::Yes);
        // Half a count is none.
        fs::write(directory.join("used"), [1; 9]).unwrap();
        account.begin(|| Ok(90)).unwrap();
        assert_eq!(keep("e"), Kept::No);
        fs::remove_dir_all(&directory).unwrap();
    }
}
