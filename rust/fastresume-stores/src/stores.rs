//! The stores that a dataset reads from, as the core asks them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fastresume::error::{check, shown};
use fastresume::{ByteSource, Error, ListedObject, Result, Status, Store};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _};

use crate::address::{Address, StoreKind};
use crate::block::ObjectKey;
use crate::cache::Cache;
use crate::counts::Counts;
use crate::object::{Object, longest, message_of, status_of};
use crate::object_source::ObjectSource;
use crate::options::Options;
use crate::outlook::Outlook;
use crate::page::ListingPages;
use crate::process::{LOOK_EVERY, Process};
use crate::retry::{again, again_at_first};
use crate::shared::Shared;

/// So many objects are asked for at once where all of each is wanted.
const READERS: usize = 32;

/// What tells of objects, and holds none of their bytes, is there as a whole after this time.
const WHOLE: Duration = Duration::from_secs(40);

/// The stores that a dataset reads from.
#[derive(Debug, Clone)]
pub struct Stores {
    shared: Arc<Shared>,
}

impl Stores {
    /// Stores that are reached with these options, and where blocks of objects are kept. Nothing is asked yet.
    #[must_use]
    pub fn new(options: Options, cache: Option<Cache>) -> Self {
        Self { shared: Arc::new(Shared::new(options, cache)) }
    }

    /// The first thing that went wrong with the cache in this process, given once.
    #[must_use]
    pub fn take_trouble(&self) -> Option<String> {
        self.shared.cache.as_ref().and_then(|cache| cache.take_trouble())
    }

    /// What is to be known of objects whose store tells little of them, given once.
    #[must_use]
    pub fn take_weakness(&self) -> Option<String> {
        self.shared.take_weakness()
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
    async fn listed(&self, path: &Path, most: usize) -> Result<Vec<ListedObject>> {
        let address = Address::parse(path)?;
        let client = self.shared.client(path)?;
        let what = if address.kind == StoreKind::Http { "can't open" } else { "can't list" };
        let failed = |cause: &object_store::Error| Error::source(what, path, message_of(cause));
        let listed = |meta: &ObjectMeta| {
            let path = match address.kind {
                StoreKind::Http => path.to_owned(),
                _ => address.of(&meta.location),
            };
            ListedObject { path, status: status_of(meta) }
        };
        // `s3://bucket/a/` is what lies below `a`, and never the object of that name.
        if !address.key.as_ref().is_empty() && !address.is_directory {
            match again_at_first(self.counts(), WHOLE, || client.head(&address.key)).await {
                Ok(meta) => return Ok(vec![listed(&meta)]),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(cause) => return Err(failed(&cause)),
            }
        }
        if address.kind == StoreKind::Http {
            let message = "the server has no such file; a web server lists no directories: name each file";
            return Err(Error::Missing(Error::source(what, path, message).to_string()));
        }
        let prefix = Some(&address.key).filter(|key| !key.as_ref().is_empty());
        let is_meant = |object: &ObjectMeta| object.size > 0 || is_parquet(object.location.filename());
        let (mut pages, mut token) = (ListingPages::below(prefix), None);
        loop {
            let page = again_at_first(self.counts(), WHOLE, || async {
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

    /// The bytes of the objects of these names in a directory, which is listed once; none of those that it lacks.
    ///
    /// # Errors
    /// `Source` if the store does not answer; `Argument` if no store has such an address; `Interrupted` once `stop` is set.
    pub fn contents(
        &self,
        directory: &Path,
        names: &[String],
        stop: &AtomicBool,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let directory = PathBuf::from(format!("{}/", directory.display()));
        Self::wait(stop, async {
            let listed = self.listed(&directory, usize::MAX).await?;
            let found = listed.iter().filter_map(|one| Some((one.path.file_name()?.to_str()?, one)));
            let found: HashMap<&str, &ListedObject> = found.collect();
            let client = self.shared.client(&directory)?;
            let each = names.iter().map(|name| {
                let (found, client) = (found.get(name.as_str()).copied(), Arc::clone(&client));
                async move {
                    let Some(ListedObject { path, status }) = found else { return Ok(None) };
                    let object = self.object(path, status, false)?;
                    Ok(Some(object.ask(client.as_ref(), 0..status.size).await?.to_vec()))
                }
            });
            stream::iter(each).buffered(READERS).try_collect().await
        })
    }

    /// An object of this status, of which blocks are kept if there is a cache for them.
    fn object(&self, address: &Path, status: &Status, is_cached: bool) -> Result<Object> {
        let parsed = Address::parse(address)?;
        let (shared, path): (_, PathBuf) = (Arc::clone(&self.shared), address.to_owned());
        let cached = match &shared.cache {
            Some(_) if is_cached => ObjectKey::of(&shared.options.place(&parsed)?, address, status),
            _ => None,
        };
        let tag = status.object().and_then(|object| object.tag.as_deref());
        let expected = tag.filter(|_| parsed.kind == StoreKind::Hub).map(str::to_owned);
        let (key, status) = (parsed.key, status.clone());
        Ok(Object { shared, path, key, status, expected, cached })
    }

    fn source(&self, address: &Path, status: &Status, is_cached: bool) -> Result<ObjectSource> {
        Ok(ObjectSource::new(self.object(address, status, is_cached)?))
    }
}

/// Whether a file of this name is one of Parquet.
fn is_parquet(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.ends_with(".parquet"))
}

/// The names that others lie below or have bytes under, if there are objects without a byte: such a one that ends in
/// `.parquet` names a directory, or is a file whose writer failed.
fn directories(objects: &[ObjectMeta]) -> HashSet<&str> {
    if objects.iter().all(|object| object.size > 0) {
        return HashSet::new();
    }
    let names = objects.iter().map(|object| object.location.as_ref());
    let above = names.flat_map(|name| name.match_indices('/').map(|(at, _)| &name[..at]));
    let with_bytes = objects.iter().filter(|object| object.size > 0);
    above.chain(with_bytes.map(|object| object.location.as_ref())).collect()
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

    fn list(&self, address: &Path, stop: &AtomicBool) -> Result<Vec<ListedObject>> {
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
        let source: Arc<dyn ByteSource> = Arc::new(self.source(address, &found.status, false)?);
        let source = source.fetching(std::slice::from_ref(&(0..size)))?.unwrap_or(source);
        source.read(0, usize::try_from(size).unwrap_or(usize::MAX)).map(Some)
    }

    fn put(&self, address: &Path, bytes: Vec<u8>, stop: &AtomicBool) -> Result<()> {
        let key = one_object(address)?;
        let (client, bytes) = (self.shared.client(address)?, bytes::Bytes::from(bytes));
        let long = longest(bytes.len());
        Self::wait(stop, async {
            let put = again(self.counts(), long, || client.put(&key, bytes.clone().into()));
            put.await.map(drop).map_err(|cause| Error::Source(message_of(&cause)))
        })
    }

    fn open(&self, address: &Path, status: &Status) -> Result<Arc<dyn ByteSource>> {
        Ok(Arc::new(self.source(address, status, true)?))
    }
}
