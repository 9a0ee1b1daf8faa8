//! The HTTP client below the stores: it counts requests, and asks for less at a time where a server says that it is busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::counts::Counts;

/// So many reads are in flight at first.
const FIRST_IN_FLIGHT: usize = 16;

/// And never more than so many.
const MOST_IN_FLIGHT: usize = 256;

/// And never fewer.
const LEAST_IN_FLIGHT: usize = 2;

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

/// Makes clients that count.
#[derive(Debug)]
pub struct Connector {
    pub counts: Arc<Counts>,
    pub throttle: Arc<Throttle>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.around(ReqwestConnector::default().connect(options)?))
    }
}

impl Connector {
    /// A client that counts what another one does.
    pub fn around(&self, inner: HttpClient) -> HttpClient {
        let (counts, throttle) = (Arc::clone(&self.counts), Arc::clone(&self.throttle));
        HttpClient::new(Counting { inner, counts, throttle })
    }
}

#[derive(Debug)]
struct Counting {
    inner: HttpClient,
    counts: Arc<Counts>,
    throttle: Arc<Throttle>,
}

#[async_trait]
impl HttpService for Counting {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.counts.note_request();
        let answered = self.inner.execute(request).await;
        match &answered {
            Ok(response) => {
                let status = response.status();
                if BUSY.contains(&status.as_u16()) {
                    self.throttle.halve();
                }
                if status.is_server_error() || status.as_u16() == 429 {
                    self.counts.note_retry();
                }
            }
            Err(_) => self.counts.note_retry(),
        }
        answered
    }
}
