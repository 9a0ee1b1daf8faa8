//! The HTTP client below the stores: it counts requests, notes what answers say of another try, and asks for less at a time
//! where a server says that it is busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fastresume::error::quoted;
use futures_util::TryStreamExt as _;
use http::Uri;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::counts::Counts;
use crate::outlook::{METADATA_HOSTS, Outlook, code_of, is_nothing_there, unnamed};
use crate::page::{check_page, root_of};
use crate::plain::{Plain, speaks_no_tls};

/// A body that brings no byte for this long is asked for again.
pub const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// So many reads are in flight at first.
const FIRST_IN_FLIGHT: usize = 16;

/// And never more than so many.
const MOST_IN_FLIGHT: usize = 256;

/// And never fewer.
const LEAST_IN_FLIGHT: usize = 2;

/// A store that begins to answer within this time is near.
const NEAR: Duration = Duration::from_millis(5);

/// No more is read of what a server says of an error.
const MOST_BYTES_OF_ERROR: usize = 16 << 10;

/// Nor of a page of a listing: one of 5,000 names has a few MiB.
const MOST_BYTES_OF_PAGE: usize = 64 << 20;

/// What servers answer that have too much to do.
const BUSY: [u16; 2] = [429, 503];

/// How many reads of a process may be in flight: one more after each that went well, half as many where a server is busy.
#[derive(Debug)]
pub struct Throttle {
    permits: Semaphore,
    /// How many there are, whether they are taken or not.
    limit: AtomicUsize,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { permits: Semaphore::new(FIRST_IN_FLIGHT), limit: AtomicUsize::new(FIRST_IN_FLIGHT) }
    }
}

impl Throttle {
    /// Waits until one read more may be in flight.
    pub async fn enter(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.permits.acquire().await.ok()
    }

    /// How many reads are in flight.
    pub fn in_flight(&self) -> usize {
        self.limit.load(Relaxed).saturating_sub(self.permits.available_permits())
    }

    /// Notes that a read went well.
    pub fn grow(&self) {
        let grown =
            self.limit.fetch_update(Relaxed, Relaxed, |limit| (limit < MOST_IN_FLIGHT).then_some(limit + 1));
        if grown.is_ok() {
            self.permits.add_permits(1);
        }
    }

    /// Notes that a server was busy. Permits that are taken stay so: fewer are given back then.
    fn halve(&self) {
        let surplus = |limit: usize| limit - (limit / 2).max(LEAST_IN_FLIGHT);
        if let Ok(before) = self.limit.fetch_update(Relaxed, Relaxed, |limit| Some(limit - surplus(limit))) {
            // Those that are taken can't be forgotten: the limit is what there is.
            let gone = self.permits.forget_permits(surplus(before));
            self.limit.fetch_add(surplus(before) - gone, Relaxed);
        }
    }
}

/// How long a store took to begin its last answer, of those that nothing else was in the way of.
#[derive(Debug)]
pub struct Answer(AtomicU64);

impl Default for Answer {
    /// That of a store which was not asked yet, and may be far.
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Answer {
    /// Notes how long one took.
    pub fn note(&self, took: Duration) {
        self.0.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Whether it came at once.
    pub fn is_near(&self) -> bool {
        Duration::from_nanos(self.0.load(Relaxed)) < NEAR
    }
}

/// Makes clients that count.
#[derive(Debug)]
pub struct ClientConnector {
    pub counts: Arc<Counts>,
    pub throttle: Arc<Throttle>,
}

impl HttpConnector for ClientConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.around(ReqwestConnector::default().connect(options)?))
    }
}

impl ClientConnector {
    /// A client that counts what another one does.
    pub fn around(&self, inner: HttpClient) -> HttpClient {
        let (counts, throttle) = (Arc::clone(&self.counts), Arc::clone(&self.throttle));
        HttpClient::new(Counting { inner, counts, throttle, plain: Plain::default() })
    }
}

#[derive(Debug)]
struct Counting {
    inner: HttpClient,
    counts: Arc<Counts>,
    throttle: Arc<Throttle>,
    plain: Plain,
}

impl Counting {
    /// An answer, of which it is noted what it says of another try. What tells of errors and pages of listings is read here,
    /// and no further than it should go.
    async fn judged(&self, response: HttpResponse, asked: &Uri) -> Result<HttpResponse, HttpError> {
        let (parts, body) = response.into_parts();
        let status = parts.status;
        if BUSY.contains(&status.as_u16()) {
            self.throttle.halve();
        }
        if status.is_client_error() || status.is_server_error() {
            // A status says enough where its body breaks off.
            let body = beginning(body, MOST_BYTES_OF_ERROR).await.unwrap_or_default();
            Outlook::of_status(status, &parts.headers, code_of(&body)).note();
            return Ok(HttpResponse::from_parts(parts, body.into()));
        }
        Outlook::Fine.note();
        let Some(root) = root_of(asked).filter(|_| status.is_success()) else {
            return Ok(HttpResponse::from_parts(parts, body));
        };
        let body = beginning(body, MOST_BYTES_OF_PAGE).await?;
        match check_page(&body, root) {
            Ok(()) => Ok(HttpResponse::from_parts(parts, body.into())),
            Err((wrong, outlook)) => {
                outlook.note();
                Err(HttpError::new(HttpErrorKind::Decode, wrong))
            }
        }
    }
}

/// A body, of which no more is read than so many bytes and a piece.
async fn beginning(body: HttpResponseBody, most: usize) -> Result<Bytes, HttpError> {
    let mut pieces = body.bytes_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.try_next().await? {
        whole.extend_from_slice(&piece);
        if whole.len() > most {
            whole.truncate(most);
            break;
        }
    }
    Ok(whole.into())
}

#[async_trait]
impl HttpService for Counting {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.counts.note_request();
        let asked = request.uri().clone();
        match self.inner.execute(request).await {
            Ok(response) => {
                self.plain.note_answer();
                self.judged(response, &asked).await
            }
            Err(cause) => {
                let mut outlook = Outlook::of_error(&cause);
                let unnamed = unnamed(&cause);
                let is_nothing = unnamed.is_some() || is_nothing_there(&cause);
                if METADATA_HOSTS.contains(&asked.host().unwrap_or_default()) {
                    outlook = outlook.at_most_seldom();
                } else if is_nothing && !self.plain.has_answered() {
                    outlook = outlook.absent();
                }
                let speaks_tls = self.plain.speaks_tls(&asked, &cause).await;
                if speaks_tls { Outlook::Seldom } else { outlook }.note();
                let message = if speaks_tls {
                    "the server speaks TLS there: write https://".to_owned()
                } else if speaks_no_tls(&cause) {
                    "the server speaks no TLS there: write http://".to_owned()
                } else if let Some(unnamed) = unnamed {
                    let host = asked.host().unwrap_or_default();
                    format!("the host '{}' has no address: check its name ({unnamed})", quoted(host))
                } else if is_nothing {
                    format!(
                        "nothing answers at {}: check host and port, and that the server runs",
                        place(&asked)
                    )
                } else {
                    return Err(cause);
                };
                Err(HttpError::new(cause.kind(), std::io::Error::other(message)))
            }
        }
    }
}

/// Host and port of an address.
fn place(asked: &Uri) -> String {
    let of_scheme = if asked.scheme_str() == Some("http") { 80 } else { 443 };
    format!("{}:{}", asked.host().unwrap_or_default(), asked.port_u16().unwrap_or(of_scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_near_whose_last_answer_came_at_once() {
        let answer = Answer::default();
        assert!(!answer.is_near());
        for (took, is_near) in [(1, true), (30, false), (4, true), (5, false)] {
            answer.note(Duration::from_millis(took));
            assert_eq!(answer.is_near(), is_near, "{took} ms");
        }
    }

    #[test]
    fn a_throttle_tells_how_many_reads_are_in_flight() {
        let throttle = Throttle::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let enter = || runtime.block_on(throttle.enter());
        let (one, other) = (enter(), enter());
        assert_eq!(throttle.in_flight(), 2);
        drop(one);
        throttle.grow();
        throttle.halve();
        assert_eq!(throttle.in_flight(), 1);
        drop(other);
        assert_eq!(throttle.in_flight(), 0);
    }
}
