//! Bytes that came, in memory that is used again: fresh memory costs more than what is written to it.

use std::sync::Mutex;

use bytes::Bytes;
use fastresume::error::locked;
use fastresume::{Memory, Result};
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;

use crate::outlook::Outlook;

struct Received(Memory);

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// What was written there, for whoever reads it. The last of them gives the memory back.
pub fn shared(memory: Memory) -> Bytes {
    Bytes::from_owner(Received(memory))
}

/// Puts the bytes of an answer behind those that came before, up to so many. Of an answer that goes on behind these, the rest
/// is not waited for.
///
/// # Errors
/// As the answer breaks off; inside of that, as for `Memory::extend`.
pub async fn receive(
    mut pieces: BoxStream<'static, object_store::Result<Bytes>>,
    memory: &Mutex<Memory>,
    most: usize,
) -> object_store::Result<Result<()>> {
    while let Some(piece) = pieces.try_next().await? {
        Outlook::note_bytes(piece.len());
        let mut memory = locked(memory);
        if let Err(none) = memory.extend(&piece) {
            return Ok(Err(none));
        }
        if memory.len() > most {
            break;
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use futures_util::stream;

    use super::*;

    #[test]
    fn memory_is_used_again_once_nobody_reads_it() {
        const BYTES: usize = 7_654_321;
        let received = || {
            let mut memory = Memory::for_what_comes(BYTES).unwrap();
            memory.resize(BYTES).unwrap();
            shared(memory)
        };
        let first = received();
        let (place, part) = (first.as_ptr(), first.slice(5..10));
        drop(first);
        assert_ne!(received().as_ptr(), place, "a part of it is read");
        drop(part);
        assert!([received(), received()].iter().any(|bytes| bytes.as_ptr() == place));
    }

    #[test]
    fn an_answer_is_its_pieces_and_what_lies_behind_is_left() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let come = |pieces: &[&'static str], asked| {
            let pieces: Vec<_> =
                pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))).collect();
            let memory = Mutex::new(Memory::for_what_comes(asked).unwrap());
            runtime.block_on(receive(stream::iter(pieces).boxed(), &memory, asked)).unwrap().unwrap();
            shared(memory.into_inner().unwrap())
        };
        assert_eq!(come(&["one", "", "two"], 6), "onetwo");
        assert_eq!(come(&["one"], 6), "one");
        assert_eq!(come(&["one", "two", "three"], 4), "onetwo");
    }
}
