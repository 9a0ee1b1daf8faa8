//! Requests to the Hugging Face hub and to where it leads: tried again after faults, with a token that goes to the hub alone.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, RANGE};
use http::{HeaderValue, StatusCode};
use object_store::Result;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse};
use reqwest::Url;

use crate::client::Connector;
use crate::hub::failed;
use crate::options::{CONNECT_TIMEOUT, MAX_RETRIES, READ_TIMEOUT, RETRY_TIMEOUT, Renewed};

const FIRST_WAIT: Duration = Duration::from_millis(100);

const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// What lets a user in.
#[derive(Clone)]
pub enum Token {
    Nobody,
    Fixed(String),
    Renewed(Arc<Renewed>),
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    /// The header that has it, if there is one.
    async fn header(&self) -> Result<Option<HeaderValue>> {
        let token = match self {
            Self::Nobody => return Ok(None),
            Self::Fixed(token) => token.clone(),
            Self::Renewed(renewed) => renewed.one("token").await?,
        };
        // The error of the crate quotes the value.
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header.map_err(|_| failed("the token has characters that no header has"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// What asks the hub, and where it leads.
#[derive(Debug, Clone)]
pub struct HubClient {
    client: HttpClient,
    pub endpoint: Url,
    token: Token,
}

impl HubClient {
    /// A client that follows no address by itself: what it leads to is told.
    ///
    /// # Errors
    /// `Generic` if the system has none to give.
    pub fn new(endpoint: Url, token: Token, connector: &Connector) -> Result<Self> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            // Where the hub is asked in secret, no answer may lead out of it.
            .https_only(endpoint.scheme() == "https")
            .user_agent(concat!("fastresume/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(failed)?;
        Ok(Self { client: connector.around(HttpClient::new(client)), endpoint, token })
    }

    /// Whether an address is one of the hub itself.
    pub fn is_of_hub(&self, address: &Url) -> bool {
        address.origin() == self.endpoint.origin()
    }

    /// What an address is at the endpoint.
    pub fn at_endpoint(&self, address: Url) -> Url {
        if self.is_of_hub(&address) {
            return address;
        }
        let mut own = self.endpoint.clone();
        own.set_path(address.path());
        own.set_query(address.query());
        own
    }

    /// An answer, whatever it says; faults that another try may mend are tried again.
    ///
    /// # Errors
    /// `Generic`, if there is none.
    pub async fn get(&self, address: &Url, range: Option<&str>) -> Result<HttpResponse> {
        let (begun, mut tried) = (Instant::now(), 0);
        loop {
            let answered = self.client.execute(self.request(address, range).await?).await;
            if answered.as_ref().is_ok_and(|response| !is_fault(response.status())) {
                return answered.map_err(failed);
            }
            let wait = wait(tried);
            if tried >= MAX_RETRIES || begun.elapsed() + wait > RETRY_TIMEOUT {
                let cause = |response: HttpResponse| format!("it answered {} each time", response.status());
                return answered.map_err(failed).and_then(|response| Err(failed(cause(response))));
            }
            tried += 1;
            tokio::time::sleep(wait).await;
        }
    }

    async fn request(&self, address: &Url, range: Option<&str>) -> Result<HttpRequest> {
        let mut request = http::Request::get(address.as_str());
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        if self.is_of_hub(address)
            && let Some(token) = self.token.header().await?
        {
            request = request.header(AUTHORIZATION, token);
        }
        request.body(HttpRequestBody::empty()).map_err(failed)
    }
}

fn is_fault(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

/// Longer from try to try, and not the same for all who were refused at once.
fn wait(tried: usize) -> Duration {
    let longest = FIRST_WAIT.saturating_mul(1 << tried.min(10)).min(LONGEST_WAIT);
    let share = u16::try_from(RandomState::new().build_hasher().finish() % 1024).unwrap_or(0);
    longest.mul_f64(0.5 + f64::from(share) / 2048.0)
}
