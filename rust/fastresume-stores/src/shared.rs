//! What the objects of a dataset share: how their stores are reached, a cache, counts.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use fastresume::error::shown;
use fastresume::{KnownBy, Result};

use crate::address::Address;
use crate::cache::Cache;
use crate::client::{Answer, ClientConnector};
use crate::counts::Counts;
use crate::handed_on::HandedOn;
use crate::options::Options;
use crate::page::Client;
use crate::process::Process;

static NEXT_OWNER: AtomicU64 = AtomicU64::new(0);

/// What the objects of a dataset share.
#[derive(Debug)]
pub struct Shared {
    owner: u64,
    pub options: Options,
    pub cache: Option<Arc<Cache>>,
    pub counts: Arc<Counts>,
    pub answer: Answer,
    pub handed_on: HandedOn,
    /// What is to be said of a store that tells little of its objects, once.
    weakness: OnceLock<String>,
    is_taken: AtomicBool,
}

impl Shared {
    /// What stores share that are reached with these options.
    pub fn new(options: Options, cache: Option<Cache>) -> Self {
        let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
        let cache = cache.map(Arc::new);
        let (counts, answer, handed_on) = Default::default();
        let (weakness, is_taken) = Default::default();
        Self { owner, options, cache, counts, answer, handed_on, weakness, is_taken }
    }

    /// What is to be known of objects whose store tells little of them, given once.
    pub fn take_weakness(&self) -> Option<String> {
        let weakness = self.weakness.get()?;
        (!self.is_taken.swap(true, Ordering::Relaxed)).then(|| weakness.clone())
    }

    /// Notes what tells an object of an answer from another one of its name.
    pub fn note_known_by(&self, known_by: KnownBy, path: &Path) {
        let (lacks, instead) = match known_by {
            KnownBy::Tags => return,
            KnownBy::Times => ("no tags (ETag)", "size and time in seconds"),
            KnownBy::Nothing => ("neither tags (ETag) nor times", "size alone"),
        };
        self.weakness.get_or_init(|| {
            let shown = shown(path);
            format!("the store of '{shown}' tells {lacks}: a replaced object is known by its {instead}")
        });
    }

    /// The client of the store that an address lies in, in this process.
    pub fn client(&self, address: &Path) -> Result<Arc<dyn Client>> {
        let address = Address::parse(address)?;
        let process = Process::current()?;
        process.client(self.owner, &address.root, || {
            let (counts, throttle) = (Arc::clone(&self.counts), Arc::clone(&process.throttle));
            self.options.client(&address, ClientConnector { counts, throttle })
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        Process::forget(self.owner);
    }
}
