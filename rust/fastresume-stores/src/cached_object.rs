//! Bytes of an object by way of a cache: what it lacks is asked for once, whoever else needs it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fastresume::{Error, Memory, Result};
use futures_util::future::try_join_all;
use tokio::sync::watch;

use crate::block::ObjectBlocks;
use crate::cache::Cache;
use crate::in_flight::{Bringer, Owed, brought};
use crate::object::Object;
use crate::page::Client;
use crate::process::Process;
use crate::received::shared;

/// Blocks that lie side by side.
enum BlockRun {
    /// They are brought here.
    Here(Vec<(u64, Owed)>),
    /// One of this number, which another one brings.
    Other(u64, watch::Receiver<Option<Result<Bytes>>>),
}

impl Object {
    /// The bytes of a range: from the cache, as far as it has the blocks of so many bytes around them.
    ///
    /// # Errors
    /// As for `ask`.
    pub async fn get(&self, client: &dyn Client, range: Range<u64>, block_bytes: u64) -> Result<Bytes> {
        let Some((cache, blocks)) = self.blocks(block_bytes) else {
            return self.ask(client, range).await;
        };
        let runs = Self::runs(cache, &blocks, blocks.around(&range))?;
        let came = try_join_all(runs.into_iter().map(|run| async {
            match run {
                BlockRun::Here(owed) => self.bring(client, cache, &blocks, owed, &range).await,
                BlockRun::Other(number, coming) => {
                    let one = blocks.one(number);
                    match brought(coming).await {
                        Some(came) => Ok((one.start, came?)),
                        // Whoever brought it was given up, or needed less of it.
                        None => self.part(client, common(&one, &range)).await,
                    }
                }
            }
        }));
        let came = came.await?;
        if let [(start, one)] = &came[..] {
            return self.within(one, *start, &range);
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut memory = Memory::for_what_comes(length)?;
        for (start, piece) in came {
            let part = common(&range, &(start..start + piece.len() as u64));
            memory.extend(&self.within(&piece, start, &part)?)?;
        }
        self.within(&shared(memory), range.start, &range)
    }

    /// A range of bytes from the store, and where it begins.
    async fn part(&self, client: &dyn Client, range: Range<u64>) -> Result<(u64, Bytes)> {
        Ok((range.start, self.ask(client, range).await?))
    }

    /// The blocks of these numbers, as runs that are brought here, and single ones that others bring.
    fn runs(cache: &Arc<Cache>, blocks: &ObjectBlocks, numbers: Range<u64>) -> Result<Vec<BlockRun>> {
        let in_flight = &Process::current()?.in_flight;
        let mut runs: Vec<BlockRun> = Vec::new();
        for number in numbers {
            match in_flight.bringer(cache.name(blocks, number)) {
                Bringer::Other(coming) => runs.push(BlockRun::Other(number, coming)),
                Bringer::Here(one) => match runs.last_mut() {
                    Some(BlockRun::Here(owed)) => owed.push((number, one)),
                    _ => runs.push(BlockRun::Here(vec![(number, one)])),
                },
            }
        }
        Ok(runs)
    }

    /// Brings what is needed of a run of blocks: those that the cache has from there, the others from the store. Those that it
    /// has room for come as a whole, and are kept.
    async fn bring(
        &self,
        client: &dyn Client,
        cache: &Arc<Cache>,
        blocks: &ObjectBlocks,
        mut owed: Vec<(u64, Owed)>,
        range: &Range<u64>,
    ) -> Result<(u64, Bytes)> {
        let (Some((first, _)), Some((last, _))) = (owed.first(), owed.last()) else {
            return Ok((range.start, Bytes::new()));
        };
        let numbers = *first..*last + 1;
        let whole = blocks.range(&numbers);
        let found = read(cache, blocks, numbers.clone()).await;
        let (held, lacking, is_room) = match found {
            Some(FoundBlocks { memory, lacking, is_room }) if lacking != [numbers.clone()] => {
                (Some(memory), lacking, is_room)
            }
            found => (None, vec![numbers], found.is_some_and(|found| found.is_room)),
        };
        let mut needed = whole.clone();
        if !is_room {
            // Whoever waits for them asks for what it needs.
            owed.retain(|(number, _)| !lacking.iter().any(|run| run.contains(number)));
            needed = common(&whole, range);
        }
        let came = match held {
            None => {
                self.part(client, needed.clone()).await.map(|(start, came)| (start, came.clone(), vec![came]))
            }
            Some(memory) => {
                let came = self.completed(client, blocks, memory, &lacking, &needed, whole.start).await;
                came.map(|(bytes, new)| (whole.start, bytes, new))
            }
        };
        let bytes = came.as_ref().map_err(Error::clone).map(|(start, bytes, _)| (*start, bytes.clone()));
        for (number, owed) in &owed {
            let one = bytes.clone().and_then(|(start, came)| self.within(&came, start, &blocks.one(*number)));
            owed.give(one);
        }
        // Until they are written, whoever needs them finds them here.
        if let Ok((_, _, new)) = came
            && is_room
        {
            for (run, came) in lacking.into_iter().zip(new) {
                write(cache, blocks, run, came).await;
            }
        }
        bytes
    }

    /// The bytes from `start` on of blocks of which some were read, with what is needed of those that are lacking, and this.
    async fn completed(
        &self,
        client: &dyn Client,
        blocks: &ObjectBlocks,
        mut memory: Memory,
        lacking: &[Range<u64>],
        needed: &Range<u64>,
        start: u64,
    ) -> Result<(Bytes, Vec<Bytes>)> {
        let asked = lacking.iter().map(|run| self.part(client, common(&blocks.range(run), needed)));
        let came = try_join_all(asked).await?;
        for (at, came) in &came {
            put(memory.bytes_mut(), start, *at, came)?;
        }
        let new: u64 = lacking.iter().map(|run| blocks.range(run)).map(|run| run.end - run.start).sum();
        self.counts().note_from_cache(memory.len() as u64 - new);
        Ok((shared(memory), came.into_iter().map(|(_, came)| came).collect()))
    }
}

/// What was read of blocks.
struct FoundBlocks {
    /// Their bytes, with holes.
    memory: Memory,
    /// Which are not there.
    lacking: Vec<Range<u64>>,
    /// Whether the cache has room for them.
    is_room: bool,
}

/// What a cache has of blocks; none if the disk can't be read.
async fn read(cache: &Arc<Cache>, blocks: &ObjectBlocks, numbers: Range<u64>) -> Option<FoundBlocks> {
    let whole = blocks.range(&numbers);
    let length = usize::try_from(whole.end - whole.start).ok()?;
    let (cache, blocks) = (Arc::clone(cache), blocks.clone());
    let _permit = Process::current().ok()?.disk.acquire().await.ok()?;
    let done = tokio::task::spawn_blocking(move || {
        let mut memory = Memory::for_what_comes(length).ok()?;
        memory.resize(length).ok()?;
        let mut lacking: Vec<Range<u64>> = Vec::new();
        let mut least = None;
        for number in cache.read(&blocks, numbers, memory.bytes_mut()) {
            let one = blocks.one(number);
            least = least.into_iter().chain([one.end - one.start]).min();
            match lacking.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => lacking.push(number..number + 1),
            }
        }
        let is_room = least.is_none_or(|bytes| cache.has_room(bytes));
        Some(FoundBlocks { memory, lacking, is_room })
    });
    done.await.ok().flatten()
}

/// What two ranges have in common: nothing, at the end of the first one, if they lie apart.
fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let end = one.end.min(other.end);
    one.start.max(other.start).min(end)..end
}

/// Gives a cache the bytes of blocks.
async fn write(cache: &Arc<Cache>, blocks: &ObjectBlocks, numbers: Range<u64>, bytes: Bytes) {
    let (cache, blocks) = (Arc::clone(cache), blocks.clone());
    let Ok(process) = Process::current() else { return };
    let _permit = process.disk.acquire().await.ok();
    let done = tokio::task::spawn_blocking(move || {
        let mut rest = bytes.as_ref();
        for number in numbers {
            let one = blocks.one(number);
            let length = usize::try_from(one.end - one.start).unwrap_or(usize::MAX).min(rest.len());
            let (bytes, behind) = rest.split_at(length);
            cache.write(&blocks, number, bytes);
            rest = behind;
        }
    });
    // What fails there is noted there.
    drop(done.await);
}

/// Copies bytes of which the first is at `offset` into those that begin at `start`.
fn put(buffer: &mut [u8], start: u64, offset: u64, bytes: &[u8]) -> Result<()> {
    let first = usize::try_from(offset - start).unwrap_or(usize::MAX);
    let place = buffer.get_mut(first..).and_then(|rest| rest.get_mut(..bytes.len()));
    place.ok_or_else(|| Error::data("more bytes came than were asked for"))?.copy_from_slice(bytes);
    Ok(())
}
