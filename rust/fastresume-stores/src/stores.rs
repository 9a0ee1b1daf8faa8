//! The stores that a dataset reads from, as the core asks them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastresume::error::{check, shown};
use fastresume::{Error, Object as Listed, Result, Source, Status, Store};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _};

use crate::address::{Address, Kind};
use crate::again::again;
use crate::block::ObjectKey;
use crate::cache::Cache;
use crate::client::{Answer, Connector};
use crate::counts::Counts;
use crate::object::{Object, ObjectSource, longest, status_of, told};
use crate::options::Options;
use crate::outlook::Outlook;
use crate::page::{Client, Pages};
use crate::process::{LOOK_EVERY, Process};

/// What tells of objects, and holds none of their bytes, is there as a whole after this time.
const WHOLE: Duration = Duration::from_secs(40);

static NEXT_OWNER: AtomicU64 = AtomicU64::new(0);

/// What the objects of a dataset share.
#[derive(Debug)]
pub struct Shared {
    owner: u64,
    options: Options,
    pub cache: Option<Arc<Cache>>,
    pub counts: Arc<Counts>,
    pub answer: Answer,
}

impl Shared {
    /// The client of the store that an address lies in, in this process.
    pub fn client(&self, address: &Path) -> Result<Arc<dyn Client>> {
        let address = Address::parse(address)?;
        let process = Process::current()?;
        process.client(self.owner, &address.root, || {
            let (counts, throttle) = (Arc::clone(&self.counts), Arc::clone(&process.throttle));
            self.options.client(&address, Connector { counts, throttle })
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        Process::forget(self.owner);
    }
}

/// The stores that a dataset reads from.
#[derive(Debug, Clone)]
pub struct Stores {
    shared: Arc<Shared>,
}

impl Stores {
    /// Stores that are reached with these options, and where blocks of objects are kept. Nothing is asked yet.
    #[must_use]
    pub fn new(options: Options, cache: Option<Cache>) -> Self {
        let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
        let cache = cache.map(Arc::new);
        let (counts, answer) = (Arc::default(), Answer::default());
        Self { shared: Arc::new(Shared { owner, options, cache, counts, answer }) }
    }

    /// The first thing that went wrong with the cache in this process, told once.
    #[must_use]
    pub fn take_trouble(&self) -> Option<String> {
        self.shared.cache.as_ref()?.take_trouble()
    }

    /// What was asked of them until now, in this process.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Waits for an answer, unless it is to stop.
    fn wait<T>(stop: &AtomicBool, work: impl Future<Output = Result<T>>) -> Result<T> {
        Process::current()?.wait(async {
            let mut work = std::pin::pin!(work);
            loop {
                match tokio::time::timeout(LOOK_EVERY, work.as_mut()).await {
                    Ok(done) => return done,
                    Err(_) => check(stop)?,
                }
            }
        })
    }

    /// At most so many of the objects of an address, or below it.
    async fn listed(&self, path: &Path, most: usize) -> Result<Vec<Listed>> {
        let address = Address::parse(path)?;
        let client = self.shared.client(path)?;
        let failed = |cause: &object_store::Error| Error::source("can't list", path, told(cause));
        let listed = |meta: &ObjectMeta| {
            let path = match address.kind {
                Kind::Http => path.to_owned(),
                _ => address.of(&meta.location),
            };
            Listed { path, status: status_of(meta) }
        };
        if !address.key.as_ref().is_empty() {
            match again(self.counts(), WHOLE, || client.head(&address.key)).await {
                Ok(meta) => return Ok(vec![listed(&meta)]),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(cause) => return Err(failed(&cause)),
            }
        }
        if address.kind == Kind::Http {
            return Err(failed(&object_store::Error::NotSupported {
                source: "the server has no such file, or answers no HEAD; a web server lists no directories: name each file"
                    .into(),
            }));
        }
        let prefix = Some(&address.key).filter(|key| !key.as_ref().is_empty());
        let is_meant = |object: &ObjectMeta| object.size > 0 || is_parquet(object.location.filename());
        let (mut pages, mut token) = (Pages::below(prefix), None);
        loop {
            let page = again(self.counts(), WHOLE, || async {
                let page = client.page(prefix, token.clone()).await?;
                // A page of a moment's fault, or of a cache between, may be right when it is asked for again.
                pages.check(&page).inspect_err(|_| Outlook::Seldom.note())?;
                Ok(page)
            });
            let page = page.await.map_err(|cause| failed(&cause))?;
            token = pages.take(page, is_meant).map_err(|wrong| failed(&wrong.into()))?;
            if token.is_none() || pages.len() >= most {
                break;
            }
        }
        let mut objects = pages.into_objects();
        objects.truncate(most);
        let directories = directories(&objects);
        let holds_rows =
            |object: &&ObjectMeta| object.size > 0 || !directories.contains(object.location.as_ref());
        Ok(objects.iter().filter(holds_rows).map(listed).collect())
    }

    /// An object of this status, of which blocks are kept if there is a cache for them.
    fn source(&self, address: &Path, status: &Status, is_cached: bool) -> Result<ObjectSource> {
        let parsed = Address::parse(address)?;
        let (shared, path): (_, PathBuf) = (Arc::clone(&self.shared), address.to_owned());
        let cached = match &shared.cache {
            Some(_) if is_cached => ObjectKey::of(&shared.options.place(&parsed)?, address, status),
            _ => None,
        };
        let expected = status.tag().filter(|_| parsed.kind == Kind::Hub).map(str::to_owned);
        let (key, status) = (parsed.key, status.clone());
        Ok(ObjectSource::new(Object { shared, path, key, status, expected, cached }))
    }
}

/// Whether a file of this name is one of Parquet.
fn is_parquet(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.ends_with(".parquet"))
}

/// The names that others lie below, if there are objects without a byte: such a one that ends in `.parquet` names a
/// directory, or is a file whose writer failed.
fn directories(objects: &[ObjectMeta]) -> HashSet<&str> {
    if objects.iter().all(|object| object.size > 0) {
        return HashSet::new();
    }
    let names = objects.iter().map(|object| object.location.as_ref());
    names.flat_map(|name| name.match_indices('/').map(|(at, _)| &name[..at])).collect()
}

/// The name of an object in its store.
fn one_object(address: &Path) -> Result<Key> {
    let Address { key, .. } = Address::parse(address)?;
    if key.as_ref().is_empty() {
        return Err(Error::Argument(format!("the address '{}' names no object", shown(address))));
    }
    Ok(key)
}

impl Store for Stores {
    fn root(&self, address: &Path) -> Result<PathBuf> {
        Ok(Address::parse(address)?.root.into())
    }

    fn list(&self, address: &Path, stop: &AtomicBool) -> Result<Vec<Listed>> {
        Self::wait(stop, self.listed(address, usize::MAX))
    }

    fn has(&self, address: &Path, stop: &AtomicBool) -> Result<bool> {
        Ok(!Self::wait(stop, self.listed(address, 1))?.is_empty())
    }

    fn whole(&self, address: &Path, most_bytes: u64, stop: &AtomicBool) -> Result<Option<Vec<u8>>> {
        one_object(address)?;
        let found = Self::wait(stop, self.listed(address, 1))?;
        let Some(found) = found.into_iter().find(|found| found.path == address) else { return Ok(None) };
        let size = found.status.size;
        if size > most_bytes {
            let cause = format!("it has {size} bytes, more than {most_bytes}");
            return Err(Error::source("can't read", address, cause));
        }
        // It is no data, which a cache keeps.
        let source: Arc<dyn Source> = Arc::new(self.source(address, &found.status, false)?);
        let source = source.fetching(std::slice::from_ref(&(0..size)))?.unwrap_or(source);
        source.read(0, usize::try_from(size).unwrap_or(usize::MAX)).map(Some)
    }

    fn put(&self, address: &Path, bytes: Vec<u8>, stop: &AtomicBool) -> Result<()> {
        let key = one_object(address)?;
        let (client, bytes) = (self.shared.client(address)?, bytes::Bytes::from(bytes));
        let long = longest(bytes.len());
        Self::wait(stop, async {
            let put = again(self.counts(), long, || client.put(&key, bytes.clone().into()));
            put.await.map(drop).map_err(|cause| Error::Source(told(&cause)))
        })
    }

    fn open(&self, address: &Path, status: &Status) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.source(address, status, true)?))
    }
}
