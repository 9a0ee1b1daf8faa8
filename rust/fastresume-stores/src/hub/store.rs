//! The Hugging Face hub as a store: its tree lists files, and it tells where the bytes of each lie.
//!
//! Large files lie elsewhere: the hub answers with a signed address that expires. That one is kept and asked for ranges, and
//! the hub is asked again once it is refused. The token goes to the hub alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use http::header::{ETAG, HeaderName, LOCATION};
use object_store::client::HttpResponse;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use reqwest::Url;

use crate::hub::client::HubClient;
use crate::hub::failure::failed;
use crate::hub::tree;
use crate::outlook::Outlook;
use crate::page::{Client, ListingPage, ListingPages};
use crate::repository::Repository;
use crate::web::{content_range, header, whole_given};

/// The tag of what an answer leads to.
const LINKED_ETAG: HeaderName = HeaderName::from_static("x-linked-etag");

/// What the hub says is wrong.
const ERROR_CODE: HeaderName = HeaderName::from_static("x-error-code");
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("x-error-message");

/// An answer leads to another one so often at most.
const MOST_HOPS: u32 = 5;

/// A repository of the hub.
pub struct HubStore {
    client: HubClient,
    repository: Repository,
    /// Where the bytes of files are, as the hub answered last.
    located: Mutex<HashMap<Key, Located>>,
    /// Directories that were listed to find single files, each with the files in it.
    directories: Mutex<HashMap<Key, Arc<Vec<ObjectMeta>>>>,
    /// The tags of the first answers for files of which the hub tells none.
    first_tags: Mutex<HashMap<Key, String>>,
}

/// Where the bytes of a file lie.
#[derive(Clone)]
struct Located {
    address: Url,
    /// The tag of the file, if the hub gave it.
    tag: Option<String>,
}

impl fmt::Debug for HubStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hub").field("repository", &self.repository).finish_non_exhaustive()
    }
}

impl fmt::Display for HubStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Hub({})", self.repository.name)
    }
}

fn tag_of(response: &HttpResponse, name: &HeaderName) -> Option<String> {
    let tag = header(response, name)?.trim_start_matches("W/").trim_matches('"');
    Some(tag.to_owned())
}

impl HubStore {
    pub fn new(client: HubClient, repository: Repository) -> Self {
        Self {
            client,
            repository,
            located: Mutex::default(),
            directories: Mutex::default(),
            first_tags: Mutex::default(),
        }
    }

    /// An address of the hub: what stands before the revision, and the path behind it.
    fn address(&self, before: &[&str], key: Option<&Key>) -> Url {
        let names = self.repository.name.split('/');
        let (kind, action) = (&before[..before.len() - 1], &before[before.len() - 1..]);
        let mut address = self.client.endpoint.clone();
        if let Ok(mut parts) = address.path_segments_mut() {
            parts.pop_if_empty().extend(kind).extend(names).extend(action).push(&self.repository.revision);
            parts.extend(key.into_iter().flat_map(|key| key.parts()).map(|part| part.as_ref().to_owned()));
        }
        address
    }

    /// A page of a directory's files: the first one, or the one that lies at an address; none if there is no such directory.
    async fn tree(&self, directory: Option<&Key>, at: Option<String>, is_deep: bool) -> Result<ListingPage> {
        let address = if let Some(at) = &at {
            Url::parse(at).map_err(failed)?
        } else {
            let mut first = self.address(&["api", "datasets", "tree"], directory);
            first.query_pairs_mut().append_pair("recursive", if is_deep { "true" } else { "false" });
            first
        };
        let response = self.client.get(&address, None).await?;
        let is_nothing = response.status() == StatusCode::NOT_FOUND
            && header(&response, &ERROR_CODE).is_none_or(|code| code == "EntryNotFound");
        if is_nothing && at.is_none() {
            return Ok(ListingPage { objects: Vec::new(), next: None });
        }
        let response = refused(response, &self.to_string())?;
        // A mirror may link to what it is one of.
        let next = tree::next(response.headers())
            .map(|next| address.join(next).map(|next| self.client.at_endpoint(next).to_string()));
        let next = next.transpose().map_err(failed)?;
        let answer = response.into_body().bytes().await.map_err(failed)?;
        // Most that is none was put there by what lies between.
        let objects = tree::files(&answer).inspect_err(|_| Outlook::Seldom.note())?;
        Ok(ListingPage { objects, next })
    }

    /// One file, which the tree of its directory tells of.
    async fn find(&self, key: &Key) -> Result<ObjectMeta> {
        let names: Vec<_> = key.parts().collect();
        let above: Key = names.iter().take(names.len().saturating_sub(1)).cloned().collect();
        let known = locked(&self.directories).get(&above).cloned();
        let files = if let Some(files) = known {
            files
        } else {
            let directory = Some(&above).filter(|above| !above.as_ref().is_empty());
            let (mut pages, mut token) = (ListingPages::below(directory), None);
            loop {
                token = pages.take(self.tree(directory, token, false).await?, |_| true)?;
                if token.is_none() {
                    break;
                }
            }
            let files = Arc::new(pages.into_objects());
            locked(&self.directories).insert(above, Arc::clone(&files));
            files
        };
        let found = files.iter().find(|file| file.location == *key).cloned();
        found.ok_or_else(|| Error::NotFound { path: key.to_string(), source: "no such file".into() })
    }

    /// Asks for a range where a file lies, or is said to lie; the answer, and the tag of the file if the hub tells it.
    async fn ask(&self, key: &Key, range: Option<&str>) -> Result<(HttpResponse, Option<String>)> {
        let known = locked(&self.located).get(key).cloned();
        if let Some(known) = known {
            match self.client.get(&known.address, range).await {
                Ok(response) if response.status().is_success() => return Ok((response, known.tag)),
                // The address has expired. No error has it: it holds a signature.
                Ok(_) => drop(locked(&self.located).remove(key)),
                Err(cause) => {
                    locked(&self.located).remove(key);
                    return Err(cause);
                }
            }
        }
        let mut at = Located { address: self.address(&["datasets", "resolve"], Some(key)), tag: None };
        for _ in 0..MOST_HOPS {
            let response = self.client.get(&at.address, range).await?;
            let is_of_hub = self.client.is_of_hub(&at.address);
            if is_of_hub {
                // The hub's own answer has the file's tag, one that leads on that of what it leads to.
                let own = Some(&ETAG).filter(|_| response.status().is_success());
                let tag =
                    [Some(&LINKED_ETAG), own].into_iter().flatten().find_map(|name| tag_of(&response, name));
                at.tag = tag.or(at.tag);
            }
            if response.status().is_redirection() {
                let location = header(&response, &LOCATION).and_then(|to| at.address.join(to).ok());
                at.address = location.ok_or_else(|| failed("it leads on to no address"))?;
                continue;
            }
            let response = refused(response, key.as_ref())?;
            let tag = at.tag.clone();
            if !is_of_hub {
                locked(&self.located).insert(key.clone(), at);
            }
            return Ok((response, tag));
        }
        Err(failed("it leads on from one address to the next"))
    }

    /// The tag of a file of which the hub tells none: the one that is expected, as long as answers have the tag of the
    /// first one.
    fn tag_of_answers(&self, key: &Key, response: &HttpResponse, expected: Option<&str>) -> Option<String> {
        let own = tag_of(response, &ETAG)?;
        let is_same = *locked(&self.first_tags).entry(key.clone()).or_insert_with(|| own.clone()) == own;
        expected.filter(|_| is_same).map_or(Some(own), |expected| Some(expected.to_owned()))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer, unless it says that there is nothing to give.
fn refused(response: HttpResponse, path: &str) -> Result<HttpResponse> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let code = header(&response, &ERROR_CODE).unwrap_or_default();
    let message = header(&response, &ERROR_MESSAGE).unwrap_or_default();
    let parts: Vec<&str> =
        [status.as_str(), code, message].into_iter().filter(|parts| !parts.is_empty()).collect();
    let answer = format!("the hub answered {}", parts.join(", "));
    let path = path.to_owned();
    Err(match status {
        StatusCode::NOT_FOUND => Error::NotFound { path, source: answer.into() },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let hint = "a private or gated dataset needs storage_options={'token': ...} or HF_TOKEN";
            Error::Unauthenticated { path, source: format!("{answer}: {hint}").into() }
        }
        _ => failed(answer),
    })
}

fn by_page<T>() -> Result<T> {
    Err(Error::NotSupported { source: "trees are listed page by page".into() })
}

fn read_only<T>() -> Result<T> {
    Err(Error::NotSupported { source: "the hub is read, and not written".into() })
}

#[async_trait]
impl Client for HubStore {
    async fn page(&self, directory: Option<&Key>, token: Option<String>) -> Result<ListingPage> {
        self.tree(directory, token, true).await
    }
}

#[async_trait]
impl ObjectStore for HubStore {
    async fn get_opts(&self, location: &Key, options: GetOptions) -> Result<GetResult> {
        if options.head {
            let meta = self.find(location).await?;
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            let (attributes, extensions) = Default::default();
            return Ok(GetResult { payload, range: 0..0, meta, attributes, extensions });
        }
        let Some(GetRange::Bounded(range)) = options.range else {
            return Err(Error::NotSupported { source: "files of the hub are read by ranges".into() });
        };
        let asked = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let (response, tag) = self.ask(location, Some(&asked)).await?;
        let expected = options.if_match.as_deref();
        let tag = tag.or_else(|| self.tag_of_answers(location, &response, expected));
        let Some((given, size)) = content_range(&response) else {
            return Err(whole_given(&response, location));
        };
        if given != range {
            let message = format!("bytes {range:?} were asked for, and {given:?} were given");
            return Err(failed(message));
        }
        let tag = tag.or_else(|| expected.map(str::to_owned));
        let meta = tree::file(location.clone(), size, tag);
        let body = response.into_body().bytes_stream().map_err(failed).boxed();
        let (attributes, extensions) = Default::default();
        Ok(GetResult { payload: GetResultPayload::Stream(body), range, meta, attributes, extensions })
    }

    fn list(&self, _: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { by_page() }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Key>) -> Result<ListResult> {
        by_page()
    }

    async fn put_opts(&self, _: &Key, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(&self, _: &Key, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Key>>) -> BoxStream<'static, Result<Key>> {
        stream::once(async { read_only() }).boxed()
    }

    async fn copy_opts(&self, _: &Key, _: &Key, _: CopyOptions) -> Result<()> {
        read_only()
    }
}
