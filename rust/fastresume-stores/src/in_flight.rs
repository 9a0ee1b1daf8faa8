//! Blocks of a cache that are on their way: whoever needs one that was asked for waits for it, and asks for no byte twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fastresume::Result;
use fastresume::error::locked;
use tokio::sync::watch;

/// What comes of a block; nothing as long as it is on its way.
type Came = Option<Result<Bytes>>;

/// The blocks of a process, by the names of their files.
#[derive(Debug, Default)]
pub struct InFlight(Arc<Mutex<HashMap<String, watch::Receiver<Came>>>>);

/// Who brings a block.
pub enum Bringer {
    /// Whoever asked here, and owes it to all others.
    Here(Owed),
    /// Another one.
    Other(watch::Receiver<Came>),
}

/// A block that others may wait for. Once it is dropped, the next one who needs the block looks for it anew.
pub struct Owed {
    name: String,
    sender: watch::Sender<Came>,
    all: Arc<Mutex<HashMap<String, watch::Receiver<Came>>>>,
}

impl InFlight {
    /// Who brings the block of a name.
    pub fn bringer(&self, name: String) -> Bringer {
        let mut all = locked(&self.0);
        if let Some(coming) = all.get(&name) {
            return Bringer::Other(coming.clone());
        }
        let (sender, coming) = watch::channel(None);
        all.insert(name.clone(), coming);
        Bringer::Here(Owed { name, sender, all: Arc::clone(&self.0) })
    }
}

impl Owed {
    /// Gives all who wait what came.
    pub fn give(&self, came: Result<Bytes>) {
        self.sender.send_replace(Some(came));
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        locked(&self.all).remove(&self.name);
    }
}

/// What comes of a block that another one brings; none if that one was given up.
pub async fn brought(mut coming: watch::Receiver<Came>) -> Came {
    match coming.wait_for(Option::is_some).await {
        Ok(came) => came.clone(),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_brought_once_and_looked_for_anew_if_it_was_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let blocks = InFlight::default();
        let owed = |blocks: &InFlight| match blocks.bringer("a".into()) {
            Bringer::Here(owed) => Some(owed),
            Bringer::Other(_) => None,
        };
        let wait = |blocks: &InFlight| match blocks.bringer("a".into()) {
            Bringer::Here(_) => panic!("nobody brings it"),
            Bringer::Other(coming) => coming,
        };
        let first = owed(&blocks).unwrap();
        assert!(owed(&blocks).is_none());
        let waits = wait(&blocks);
        first.give(Ok(Bytes::from_static(b"it")));
        assert_eq!(runtime.block_on(brought(wait(&blocks))).unwrap().unwrap(), "it");
        drop(first);
        assert_eq!(runtime.block_on(brought(waits)).unwrap().unwrap(), "it", "it came before");
        let second = owed(&blocks).unwrap();
        let waits = wait(&blocks);
        drop(second);
        assert!(runtime.block_on(brought(waits)).is_none());
        assert!(owed(&blocks).is_some());
    }
}
