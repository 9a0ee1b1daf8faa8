//! Bytes of an object by way of a cache: what it lacks is asked for once, whoever else needs it.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use fastresume::{Error, Memory, Result};
use futures_util::future::try_join_all;
use tokio::sync::watch;

use crate::block::Blocks;
use crate::cache::Cache;
use crate::in_flight::{Bringer, Owed, brought};
use crate::object::Object;
use crate::page::Client;
use crate::process::Process;
use crate::received::shared;

/// Blocks that lie side by side.
enum Run {
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
        let numbers = blocks.around(&range);
        let start = blocks.range(&numbers).start;
        let came = try_join_all(Self::runs(cache, &blocks, numbers)?.into_iter().map(|run| async {
            match run {
                Run::Here(owed) => self.bring(client, cache, &blocks, owed).await,
                Run::Other(number, coming) => match brought(coming).await {
                    Some(came) => came,
                    // Whoever brought it was given up.
                    None => self.ask(client, blocks.one(number)).await,
                },
            }
        }));
        let came = came.await?;
        if let [one] = &came[..] {
            return self.within(one, start, &range);
        }
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut memory = Memory::for_what_comes(length)?;
        let mut at = start;
        for piece in came {
            let part = at.max(range.start)..(at + piece.len() as u64).min(range.end);
            if part.start < part.end {
                memory.extend(&self.within(&piece, at, &part)?)?;
            }
            at += piece.len() as u64;
        }
        self.within(&shared(memory), range.start, &range)
    }

    /// The blocks of these numbers, as runs that are brought here, and single ones that others bring.
    fn runs(cache: &Arc<Cache>, blocks: &Blocks, numbers: Range<u64>) -> Result<Vec<Run>> {
        let in_flight = &Process::current()?.in_flight;
        let mut runs: Vec<Run> = Vec::new();
        for number in numbers {
            match in_flight.bringer(cache.name(blocks, number)) {
                Bringer::Other(coming) => runs.push(Run::Other(number, coming)),
                Bringer::Here(one) => match runs.last_mut() {
                    Some(Run::Here(owed)) => owed.push((number, one)),
                    _ => runs.push(Run::Here(vec![(number, one)])),
                },
            }
        }
        Ok(runs)
    }

    /// Brings a run of blocks: those that the cache has from there, the others from the store.
    async fn bring(
        &self,
        client: &dyn Client,
        cache: &Arc<Cache>,
        blocks: &Blocks,
        owed: Vec<(u64, Owed)>,
    ) -> Result<Bytes> {
        let (Some((first, _)), Some((last, _))) = (owed.first(), owed.last()) else {
            return Ok(Bytes::new());
        };
        let numbers = *first..*last + 1;
        let whole = blocks.range(&numbers);
        let give = |came: &Result<Bytes>| {
            for (number, owed) in &owed {
                owed.give(
                    came.clone().and_then(|came| self.within(&came, whole.start, &blocks.one(*number))),
                );
            }
        };
        let came = match read(cache, blocks, numbers.clone()).await {
            None => self.ask(client, whole.clone()).await.map(|came| (came, Vec::new())),
            Some((memory, lacking)) if lacking == [numbers.clone()] => {
                drop(memory);
                let came = self.ask(client, whole.clone()).await;
                came.map(|came| (came.clone(), vec![(numbers, came)]))
            }
            Some((memory, lacking)) => self.completed(client, blocks, memory, lacking, whole.clone()).await,
        };
        let (bytes, new) = match came {
            Ok((bytes, new)) => (Ok(bytes), new),
            Err(cause) => (Err(cause), Vec::new()),
        };
        give(&bytes);
        // Until they are written, whoever needs them finds them here.
        for (run, came) in new {
            write(cache, blocks, run, came).await;
        }
        bytes
    }

    /// The bytes of blocks of which some were read, with those that are lacking, and these.
    async fn completed(
        &self,
        client: &dyn Client,
        blocks: &Blocks,
        mut memory: Memory,
        lacking: Vec<Range<u64>>,
        whole: Range<u64>,
    ) -> Result<(Bytes, Vec<(Range<u64>, Bytes)>)> {
        let came = try_join_all(lacking.iter().map(|run| self.ask(client, blocks.range(run)))).await?;
        for (run, came) in lacking.iter().zip(&came) {
            put(memory.bytes_mut(), whole.start, blocks.range(run).start, came)?;
        }
        let asked: u64 = came.iter().map(|came| came.len() as u64).sum();
        self.counts().note_from_cache(whole.end - whole.start - asked);
        Ok((shared(memory), lacking.into_iter().zip(came).collect()))
    }
}

/// The bytes of blocks, with holes where the cache lacks some, and which these are; none if the disk can't be read.
async fn read(cache: &Arc<Cache>, blocks: &Blocks, numbers: Range<u64>) -> Option<(Memory, Vec<Range<u64>>)> {
    let whole = blocks.range(&numbers);
    let length = usize::try_from(whole.end - whole.start).ok()?;
    let (cache, blocks) = (Arc::clone(cache), blocks.clone());
    let _permit = Process::current().ok()?.disk.acquire().await.ok()?;
    let done = tokio::task::spawn_blocking(move || {
        let mut memory = Memory::for_what_comes(length).ok()?;
        memory.resize(length).ok()?;
        let mut runs: Vec<Range<u64>> = Vec::new();
        for number in cache.read(&blocks, numbers, memory.bytes_mut()) {
            match runs.last_mut() {
                Some(run) if run.end == number => run.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        Some((memory, runs))
    });
    done.await.ok().flatten()
}

/// Gives a cache the bytes of blocks.
async fn write(cache: &Arc<Cache>, blocks: &Blocks, numbers: Range<u64>, bytes: Bytes) {
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
    // What fails there is told there.
    drop(done.await);
}

/// Copies bytes of which the first is at `offset` into those that begin at `start`.
fn put(buffer: &mut [u8], start: u64, offset: u64, bytes: &[u8]) -> Result<()> {
    let first = usize::try_from(offset - start).unwrap_or(usize::MAX);
    let place = buffer.get_mut(first..).and_then(|rest| rest.get_mut(..bytes.len()));
    place.ok_or_else(|| Error::data("more bytes came than were asked for"))?.copy_from_slice(bytes);
    Ok(())
}
