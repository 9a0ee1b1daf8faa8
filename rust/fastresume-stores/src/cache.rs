//! Blocks of objects in a directory of a local disk, which the processes of a machine share.
//!
//! A block is written under a name of its own and then given its place: so it is there as a whole or not at all, whenever a
//! process is killed. What is there stays there: passes read everything once, and to drop the block that was used longest
//! ago would drop the one that comes next. Nothing here is ever needed: each error means that the store is read.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use fastresume::Memory;
use fastresume::error::shown;

use crate::account::{Account, Kept};
use crate::block::{self, FoundBlock, ObjectBlocks, TRAILER_BYTES};
use crate::received::shared;

/// The directory below the one that was named. Its number is that of the format.
const BELOW: &str = "fastresume-blocks-1";

/// So many blocks are held that were read last: the threads of a reader take column after column from the same few.
const HELD: usize = 8;

static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

/// The blocks of a directory.
#[derive(Debug)]
pub struct Cache {
    named: PathBuf,
    limit: Option<u64>,
    account: Account,
    is_begun: AtomicBool,
    /// Whether what killed processes left was removed.
    is_swept: AtomicBool,
    /// Whether nothing more is kept: the directory can't be written.
    is_closed: AtomicBool,
    /// Whether the blocks were counted after the directory was found full.
    is_counted: AtomicBool,
    trouble: Mutex<Option<String>>,
    had_trouble: AtomicBool,
    /// The blocks that were read last, by their names.
    held: Mutex<VecDeque<(String, Bytes)>>,
}

impl Cache {
    /// Blocks in this directory, of so many bytes at most. It is made when the first one is kept.
    #[must_use]
    pub fn new(named: PathBuf, limit: Option<u64>) -> Self {
        Self {
            account: Account::new(named.join(BELOW).join("used")),
            named,
            limit,
            is_begun: AtomicBool::new(false),
            is_swept: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
            trouble: Mutex::default(),
            had_trouble: AtomicBool::new(false),
            held: Mutex::default(),
        }
    }

    /// The first thing that went wrong in this process, given once.
    pub fn take_trouble(&self) -> Option<String> {
        if !self.had_trouble.load(Relaxed) {
            return None;
        }
        // A forked child may find it locked for ever: it has nothing to tell then.
        self.trouble.try_lock().ok().and_then(|mut trouble| trouble.take())
    }

    fn note(&self, what: &str) {
        if !self.had_trouble.swap(true, Relaxed)
            && let Ok(mut trouble) = self.trouble.try_lock()
        {
            *trouble =
                Some(format!("fr.Cache(data='{}'): {what}; the store is read instead", shown(&self.named)));
        }
    }

    fn below(&self, name: &str) -> PathBuf {
        self.named.join(BELOW).join(name)
    }

    /// What a block is called among those of all directories.
    pub fn name(&self, blocks: &ObjectBlocks, number: u64) -> String {
        format!("{}/{}", self.named.display(), blocks.name(number))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.below("blocks").join(name)
    }

    /// Puts the blocks that are there into `buffer`, which begins with the first of them; the numbers of the others.
    pub fn read(&self, blocks: &ObjectBlocks, numbers: Range<u64>, buffer: &mut [u8]) -> Vec<u64> {
        let mut rest = buffer;
        let mut lacking = Vec::new();
        for number in numbers {
            let one = blocks.one(number);
            let length = usize::try_from(one.end - one.start).unwrap_or(usize::MAX).min(rest.len());
            let (place, behind) = rest.split_at_mut(length);
            rest = behind;
            if !self.read_one(&blocks.name(number), place) {
                lacking.push(number);
            }
        }
        lacking
    }

    /// Whether the files of all these blocks are there, and as long as they should be.
    pub fn has(&self, blocks: &ObjectBlocks, numbers: Range<u64>) -> bool {
        numbers.into_iter().all(|number| {
            let one = blocks.one(number);
            let size = one.end - one.start + TRAILER_BYTES as u64;
            fs::metadata(self.place(&blocks.name(number))).is_ok_and(|found| found.len() == size)
        })
    }

    /// The bytes of a block, if it is there.
    pub fn block(&self, blocks: &ObjectBlocks, number: u64) -> Option<Bytes> {
        let name = blocks.name(number);
        // A forked child may find it locked for ever: it reads each block anew then.
        if let Ok(held) = self.held.try_lock()
            && let Some((_, bytes)) = held.iter().find(|(other, _)| *other == name)
        {
            return Some(bytes.clone());
        }
        let one = blocks.one(number);
        let length = usize::try_from(one.end - one.start).ok()?;
        let mut memory = Memory::for_what_comes(length).ok()?;
        memory.resize(length).ok()?;
        if !self.read_one(&name, memory.bytes_mut()) {
            return None;
        }
        let bytes = shared(memory);
        if let Ok(mut held) = self.held.try_lock() {
            held.truncate(HELD - 1);
            held.push_front((name, bytes.clone()));
        }
        Some(bytes)
    }

    fn read_one(&self, name: &str, buffer: &mut [u8]) -> bool {
        self.sweep();
        let path = self.place(name);
        match block::read(&path, name, buffer) {
            Ok(FoundBlock::Whole) => true,
            Ok(FoundBlock::Nothing) => false,
            Ok(FoundBlock::Damaged) => {
                self.note("a block is damaged, and is replaced");
                if let Err(cause) = self.account.remove(&path, (buffer.len() + TRAILER_BYTES) as u64) {
                    self.fail(&cause);
                }
                false
            }
            Err(cause) => {
                self.note(&format!("can't read a block: {cause}"));
                false
            }
        }
    }

    /// Whether there is room for a block of so many bytes: what isn't kept needn't be asked for as a whole.
    pub fn has_room(&self, bytes: u64) -> bool {
        if self.is_closed.load(Relaxed) {
            return false;
        }
        let Some(limit) = self.limit else { return true };
        // What can't be read is noted by whoever writes.
        let room = || match self.account.used() {
            Some(used) if used.saturating_add(bytes + TRAILER_BYTES as u64) > limit => Err(used),
            _ => Ok(()),
        };
        let Err(used) = room() else { return true };
        // A process that was killed, or a user who removed blocks, may have left a count that is too high.
        !self.is_counted.swap(true, Relaxed)
            && self.account.correct(used, || self.counted()).is_ok()
            && room().is_ok()
    }

    /// Keeps the bytes of a block, as long as there is room.
    pub fn write(&self, blocks: &ObjectBlocks, number: u64, bytes: &[u8]) {
        if self.is_closed.load(Relaxed) {
            return;
        }
        let name = blocks.name(number);
        let write = || self.begin().and_then(|()| self.write_one(&name, bytes));
        let written = write().or_else(|cause| match cause.kind() {
            // The directory was removed.
            ErrorKind::NotFound => {
                self.is_begun.store(false, Relaxed);
                write()
            }
            _ => Err(cause),
        });
        if let Err(cause) = written {
            self.fail(&cause);
        }
    }

    fn fail(&self, cause: &io::Error) {
        self.is_closed.store(true, Relaxed);
        self.note(&format!("can't write a block: {cause}"));
    }

    /// Removes what killed processes left, once, whether anything is to be written or not.
    fn sweep(&self) {
        if self.is_swept.load(Relaxed) || self.is_swept.swap(true, Relaxed) {
            return;
        }
        let Ok(entries) = fs::read_dir(self.below("writing")) else { return };
        for entry in entries.flatten() {
            // Who writes it holds a lock, which the system takes from one that was killed.
            let is_left = || File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
            if entry.file_type().is_ok_and(|kind| kind.is_file()) && is_left() {
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    /// Makes the directory.
    fn begin(&self) -> io::Result<()> {
        if self.is_begun.load(Relaxed) {
            return Ok(());
        }
        fs::create_dir_all(self.below("writing"))?;
        self.account.begin(|| self.counted())?;
        self.is_begun.store(true, Relaxed);
        Ok(())
    }

    fn write_one(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut written = Unnamed::new(&self.below("writing"))?;
        block::write(&mut written.file, name, bytes)?;
        let (place, size) = (self.place(name), (bytes.len() + TRAILER_BYTES) as u64);
        // One for which there is no room any more is given up.
        written.is_kept = self.account.keep(&written.path, &place, size, self.limit)? == Kept::Yes;
        Ok(())
    }

    /// The bytes of all blocks' files.
    fn counted(&self) -> io::Result<u64> {
        fn sum(directory: &Path, depth: u32) -> io::Result<u64> {
            let entries = match fs::read_dir(directory) {
                // It was removed, or is a file of somebody else's.
                Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    return Ok(0);
                }
                entries => entries?,
            };
            let mut bytes = 0;
            for entry in entries {
                let entry = entry?;
                bytes += match depth {
                    0 => entry.metadata().map_or(0, |found| found.len()),
                    _ => sum(&entry.path(), depth - 1)?,
                };
            }
            Ok(bytes)
        }
        sum(&self.below("blocks"), 2)
    }
}

/// A file that is written before it gets its place; it is removed if it gets none.
struct Unnamed {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl Unnamed {
    fn new(directory: &Path) -> io::Result<Self> {
        loop {
            let number = NEXT_NAME.fetch_add(1, Relaxed);
            // Processes of two containers may have one number: a name that is taken is passed over.
            let path = directory.join(format!("{}-{number}", std::process::id()));
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Who removes what others left may have taken it for that, before it was locked.
            if file.try_lock().is_ok() && file.metadata()?.nlink() > 0 {
                return Ok(Self { path, file, is_kept: false });
            }
        }
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        if !self.is_kept {
            drop(fs::remove_file(&self.path));
        }
        drop(self.file.unlock());
    }
}
