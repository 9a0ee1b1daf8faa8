//! Ranges of an object that are needed soon: asked for together, joined where they lie near each other.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytes::Bytes;
use fastresume::error::{check_thread, locked};
use fastresume::{ByteSource, Error, Result};
use tokio::task::AbortHandle;

use crate::object::{Object, copy, waiting};
use crate::process::{LOOK_EVERY, Process};

/// A request costs the time in which so many bytes come: 20 ms at 50 MB/s. No larger gap is asked for with what is needed.
const REQUEST_BYTES: u64 = 1 << 20;

/// What is needed, over the gaps that may be asked for with it: requests go side by side, and share the way of their bytes.
const LEAST_NEEDED_OVER_GAPS: u64 = 8;

/// Where more requests than these would be made, gaps may have as many bytes as what is needed.
const FEW_REQUESTS: usize = 16;

/// Requests that bring so many bytes each, of what is needed, are few as well.
const LARGE_REQUEST_BYTES: u64 = 256 << 10;

/// A request asks for at most so many bytes, so that several bring a large range together.
const MAX_REQUEST_BYTES: u64 = 8 << 20;

/// What came of one request.
#[derive(Default)]
struct Slot {
    came: Mutex<Option<Result<Bytes>>>,
    is_there: Condvar,
}

impl Slot {
    /// Waits for what comes.
    ///
    /// # Errors
    /// What the request failed with; `Interrupted` if the work of this thread is to stop.
    fn get(&self) -> Result<Bytes> {
        let mut came = locked(&self.came);
        loop {
            if let Some(came) = &*came {
                return came.clone();
            }
            let waited = self.is_there.wait_timeout(came, LOOK_EVERY);
            came = waited.unwrap_or_else(PoisonError::into_inner).0;
            check_thread()?;
        }
    }
}

/// Whoever owes a slot what comes. One that is gone without it has failed: nobody waits for ever.
struct Promise {
    slot: Arc<Slot>,
    object: Arc<Object>,
}

impl Promise {
    fn keep(&self, came: Result<Bytes>) {
        locked(&self.slot.came).get_or_insert(came);
        self.slot.is_there.notify_all();
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep(Err(Error::unsettled(
            "can't read",
            &self.object.path,
            "the request ended without an answer",
        )));
    }
}

struct FetchPart {
    range: Range<u64>,
    slot: Arc<Slot>,
    request: AbortHandle,
}

/// Ranges of an object that are on their way, or there. What lies outside of them is not to be read here.
pub struct Fetched {
    object: Arc<Object>,
    /// The parts, ascending, none of them empty.
    parts: Vec<FetchPart>,
    /// Where they arrive: nothing comes to a forked child.
    process: &'static Process,
}

impl Fetched {
    /// Asks for ranges of an object, and does not wait for them; none if its cache has them all.
    ///
    /// # Errors
    /// `Source` if there is no client.
    pub fn begin(object: &Arc<Object>, ranges: &[Range<u64>]) -> Result<Option<Self>> {
        let requests = requests(ranges, object.status.size);
        if object.cached.is_some() && requests.iter().all(|range| object.is_cached(range)) {
            return Ok(None);
        }
        let process = Process::current()?;
        let client = object.client()?;
        object.counts().note_needed(ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum());
        let parts = requests.into_iter().map(|range| {
            let slot = Arc::new(Slot::default());
            let promise = Promise { slot: Arc::clone(&slot), object: Arc::clone(object) };
            let (asked, client) = (range.clone(), Arc::clone(&client));
            let request = process.runtime.spawn(async move {
                let block_bytes = promise.object.block_bytes();
                let came = promise.object.get(client.as_ref(), asked, block_bytes).await;
                promise.keep(came);
            });
            FetchPart { range, slot, request: request.abort_handle() }
        });
        Ok(Some(Self { object: Arc::clone(object), parts: parts.collect(), process }))
    }
}

/// The requests that bring ranges of an object of so many bytes.
fn requests(ranges: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.iter().map(|range| range.start..range.end.min(size)).collect();
    sorted.retain(|range| range.start < range.end);
    sorted.sort_unstable_by_key(|range| range.start);
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    let joined = joined(apart);
    let divided = joined.into_iter().flat_map(|range| {
        let count = (range.end - range.start).div_ceil(MAX_REQUEST_BYTES);
        let bytes = (range.end - range.start).div_ceil(count);
        (0..count).map(move |number| {
            let start = range.start + number * bytes;
            start..start.saturating_add(bytes).min(range.end)
        })
    });
    divided.filter(|range| range.start < range.end).collect()
}

/// Ascending ranges, joined where the gap between two is worth less than a request: small gaps first.
fn joined(apart: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let needed: u64 = apart.iter().map(|range| range.end - range.start).sum();
    let few = usize::try_from(needed / LARGE_REQUEST_BYTES).unwrap_or(usize::MAX).max(FEW_REQUESTS);
    let between = apart.iter().zip(apart.iter().skip(1)).enumerate();
    let mut gaps: Vec<(u64, usize)> =
        between.map(|(index, (one, next))| (next.start - one.end, index + 1)).collect();
    gaps.sort_unstable();
    let (mut bridged, mut of_gaps) = (BTreeSet::new(), 0);
    for (gap, index) in gaps {
        let is_many = apart.len() - bridged.len() > few;
        let most = if is_many { needed } else { needed / LEAST_NEEDED_OVER_GAPS };
        if gap > REQUEST_BYTES || of_gaps + gap > most {
            break;
        }
        of_gaps += gap;
        bridged.insert(index);
    }
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(apart.len() - bridged.len());
    for (index, range) in apart.into_iter().enumerate() {
        match joined.last_mut() {
            Some(last) if bridged.contains(&index) => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

impl ByteSource for Fetched {
    fn size(&self) -> u64 {
        self.object.status.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())?;
        let parts = if self.process.is_current() { self.parts.as_slice() } else { &[] };
        let mut done = 0;
        let mut index = parts.partition_point(|part| part.range.end <= offset);
        while done < buffer.len() {
            let at = offset + done as u64;
            let Some(part) = parts.get(index).filter(|part| part.range.contains(&at)) else {
                // Nobody asked for it before: a header that lies outside of what the footer states, say.
                let end = parts.get(index).map_or(u64::MAX, |next| next.range.start);
                let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len() - done);
                buffer[done..done + count].copy_from_slice(&self.object.read(at..at + count as u64)?);
                done += count;
                continue;
            };
            let bytes = waiting(self.object.counts(), || part.slot.get())?;
            let count = usize::try_from(part.range.end - at).unwrap_or(usize::MAX).min(buffer.len() - done);
            copy(&bytes, part.range.start, at, &mut buffer[done..done + count])?;
            done += count;
            index += 1;
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.object.path
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        // The runtime of another process may be in any state.
        if self.process.is_current() {
            self.parts.iter().for_each(|part| part.request.abort());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// Chunks of so many bytes, one after so many bytes.
    fn every(count: u64, step: u64, bytes: u64) -> Vec<Range<u64>> {
        (0..count).map(|number| number * step..number * step + bytes).collect()
    }

    fn bytes(of: &[Range<u64>]) -> u64 {
        of.iter().map(|range| range.end - range.start).sum()
    }

    #[allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]
    #[test]
    fn near_ranges_are_joined_and_large_ones_divided() {
        let size = 100 * MIB;
        assert_eq!(requests(&[0..100, 110..200], size), every(1, 1, 200));
        assert_eq!(requests(&[0..10, 20..30], size), [0..10, 20..30]);
        assert_eq!(requests(&[9 * MIB..17 * MIB, 0..8 * MIB], size).len(), 3);
        assert_eq!(requests(&[9 * MIB + 1..19 * MIB, 0..8 * MIB], size)[1].start, 9 * MIB + 1);
        assert_eq!(requests(&[0..20, 10..16 * MIB], size), [0..8 * MIB, 8 * MIB..16 * MIB]);
        assert_eq!(requests(&[99 * MIB..200 * MIB, 5..5], size), [99 * MIB..100 * MIB]);
        assert!(requests(&[], size).is_empty());
    }

    #[test]
    fn gaps_have_a_small_share_and_requests_are_few() {
        // How many chunks, of which size, with which gaps; how many requests they are at most, and percent of what is needed.
        for (count, chunk, gap, most_requests, most_percent) in [
            (2, 8 * KIB, 96 * KIB, 2, 100),
            (10, 8 * KIB, 8 * KIB, 10, 113),
            (10, 800 * KIB, 80 * KIB, 8, 113),
            (20, 4 * KIB, 200 * KIB, 20, 100),
            (200, 4 * KIB, 4 * KIB, 16, 200),
            (200, 4 * KIB, 12 * KIB, 135, 200),
            (500, 8 * KIB, 256, 1, 104),
            (1000, MIB, 64 * KIB, 1070, 113),
        ] {
            let ranges = every(count, chunk + gap, chunk);
            let (asked, needed) = (requests(&ranges, u64::MAX), bytes(&ranges));
            assert!(asked.len() <= most_requests, "{count} of {chunk}: {} requests", asked.len());
            assert!(
                bytes(&asked) <= needed * most_percent / 100,
                "{count} of {chunk}: {} of {needed}",
                bytes(&asked)
            );
            assert!(ranges.iter().all(|range| {
                let of = asked.iter().filter(|one| one.start < range.end && range.start < one.end);
                of.map(|one| one.end.min(range.end) - one.start.max(range.start)).sum::<u64>() == chunk
            }));
        }
    }
}
