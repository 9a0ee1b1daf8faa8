//! Files of web servers, by the addresses that browsers have: with a query, and percent-encoded.
//!
//! A signed address lets in for one method: where HEAD is refused, a range of one byte tells as much.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use chrono::DateTime;
use fastresume::{Error as CoreError, bounded};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, RANGE};
use http::{Method, StatusCode};
use object_store::client::{HttpClient, HttpConnector as _, HttpRequestBody, HttpResponse};
use object_store::path::Path as Key;
use object_store::{
    ClientOptions, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use reqwest::Url;

use crate::client::ClientConnector;
use crate::page::{Client, ListingPage};

/// A web server.
pub struct Web {
    client: HttpClient,
    root: Url,
}

impl fmt::Debug for Web {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Web({})", self.root)
    }
}

impl fmt::Display for Web {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Web({})", self.root)
    }
}

fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "HTTP", source: cause.into() }
}

/// A header that is text.
pub fn header<'a>(response: &'a HttpResponse, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// What an answer says that it holds: the range, and the size of the whole.
pub fn content_range(response: &HttpResponse) -> Option<(Range<u64>, u64)> {
    let (range, size) = header(response, &CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    Some((start.parse().ok()?..end, size.parse().ok()?))
}

/// What is wrong where a range was asked for, and the answer has none.
pub fn whole_given(response: &HttpResponse, key: &Key) -> Error {
    let is_page = header(response, &CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
    let advice = if is_page && named(key).split('?').next().is_some_and(|path| path.ends_with('/')) {
        "a page of HTML was given for a directory: a web server lists none, name each file"
    } else if is_page {
        "a page of HTML was given: it may be a login, an error or a directory; open the address in a browser, and name \
         the file itself"
    } else {
        "a part of the file was asked for, and the server gave no part: it knows no Range requests, as `python -m \
         http.server`; use one that does, such as nginx, or download the files"
    };
    failed(advice)
}

/// Path and query of an address, as it is written.
fn named(key: &Key) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(key.as_ref()).decode_utf8_lossy()
}

impl Web {
    /// # Errors
    /// `Argument` if its address is none.
    pub fn new(root: &str, options: &ClientOptions, connector: &ClientConnector) -> fastresume::Result<Self> {
        let wrong =
            |cause: String| CoreError::Argument(format!("the server '{root}' can't be reached: {cause}"));
        let url = Url::parse(root).map_err(|cause| wrong(cause.to_string()))?;
        let client = connector.connect(options).map_err(|cause| wrong(cause.to_string()))?;
        Ok(Self { client, root: url })
    }

    /// The answer to a request for a file, or for a part of it.
    async fn ask(&self, method: Method, key: &Key, range: Option<Range<u64>>) -> Result<HttpResponse> {
        let address = Url::parse(&format!("{}{}", self.root, named(key))).map_err(failed)?;
        let mut request = http::Request::builder().method(method).uri(address.as_str());
        if let Some(range) = range {
            request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        }
        let request = request.body(HttpRequestBody::empty()).map_err(failed)?;
        self.client.execute(request).await.map_err(failed)
    }

    /// The answer, unless it is none; the error lacks the query, which may be a secret.
    async fn refused(response: HttpResponse, key: &Key) -> Result<HttpResponse> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.into_body().bytes().await.unwrap_or_default();
        let answer =
            format!("the server answered {status}: {}", bounded(String::from_utf8_lossy(&body).trim()));
        let path = named(key).split('?').next().unwrap_or_default().to_owned();
        Err(match status {
            StatusCode::NOT_FOUND => Error::NotFound { path, source: answer.into() },
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                Error::PermissionDenied { path, source: answer.into() }
            }
            _ => failed(answer),
        })
    }

    /// What the server states of a file, of which no byte is asked for, or one.
    async fn head(&self, key: &Key) -> Result<ObjectMeta> {
        let response = self.ask(Method::HEAD, key, None).await?;
        let status = response.status();
        let size = header(&response, &CONTENT_LENGTH).and_then(|size| size.parse().ok());
        match size {
            Some(size) if status.is_success() => return Ok(meta(key, size, &response)),
            _ if is_momentary(status) => {
                Self::refused(response, key).await?;
            }
            _ => {}
        }
        let response = Self::refused(self.ask(Method::GET, key, Some(0..1)).await?, key).await?;
        match content_range(&response) {
            Some((_, size)) => Ok(meta(key, size, &response)),
            None => Err(whole_given(&response, key)),
        }
    }
}

/// Whether a status says nothing of the method.
fn is_momentary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502..)
}

/// What an answer tells of a file of so many bytes.
#[allow(clippy::default_trait_access, reason = "what times are is the crate's")]
fn meta(key: &Key, size: u64, response: &HttpResponse) -> ObjectMeta {
    let time = header(response, &LAST_MODIFIED).and_then(|time| DateTime::parse_from_rfc2822(time).ok());
    ObjectMeta {
        location: key.clone(),
        last_modified: time.map_or_else(Default::default, Into::into),
        size,
        e_tag: header(response, &ETAG).map(str::to_owned),
        version: None,
    }
}

fn is_read<T>() -> Result<T> {
    Err(Error::NotSupported { source: "files of a web server are read, one by one".into() })
}

#[async_trait]
impl Client for Web {
    async fn page(&self, _: Option<&Key>, _: Option<String>) -> Result<ListingPage> {
        is_read()
    }
}

#[async_trait]
impl ObjectStore for Web {
    async fn get_opts(&self, location: &Key, options: GetOptions) -> Result<GetResult> {
        let (attributes, extensions) = Default::default();
        if options.head {
            let meta = self.head(location).await?;
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            return Ok(GetResult { payload, range: 0..0, meta, attributes, extensions });
        }
        let Some(GetRange::Bounded(range)) = options.range else { return is_read() };
        let response = self.ask(Method::GET, location, Some(range.clone())).await?;
        let response = Self::refused(response, location).await?;
        let Some((given, size)) = content_range(&response).filter(|_| response.status() == 206) else {
            return Err(whole_given(&response, location));
        };
        if given != range {
            return Err(failed(format!("bytes {range:?} were asked for, and {given:?} were given")));
        }
        let meta = meta(location, size, &response);
        let body = response.into_body().bytes_stream().map(|piece| piece.map_err(failed)).boxed();
        Ok(GetResult { payload: GetResultPayload::Stream(body), range, meta, attributes, extensions })
    }

    fn list(&self, _: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { is_read() }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Key>) -> Result<ListResult> {
        is_read()
    }

    async fn put_opts(&self, _: &Key, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        is_read()
    }

    async fn put_multipart_opts(&self, _: &Key, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        is_read()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Key>>) -> BoxStream<'static, Result<Key>> {
        stream::once(async { is_read() }).boxed()
    }

    async fn copy_opts(&self, _: &Key, _: &Key, _: CopyOptions) -> Result<()> {
        is_read()
    }
}
