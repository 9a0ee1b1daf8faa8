//! Requests to the Hugging Face hub and to where it leads, with a token that goes to the hub alone.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use http::header::{AUTHORIZATION, RANGE};
use object_store::Result;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody, HttpResponse};
use reqwest::Url;

use crate::client::{CONNECT_TIMEOUT, ClientConnector, READ_TIMEOUT};
use crate::credentials::Renewed;
use crate::hub::failure::failed;

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
    /// A client that follows no address by itself: what it leads to is an answer.
    ///
    /// # Errors
    /// `Generic` if the system has none to give.
    pub fn new(endpoint: Url, token: Token, connector: &ClientConnector) -> Result<Self> {
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

    /// An answer, whatever it says.
    ///
    /// # Errors
    /// `Generic`, if there is none.
    pub async fn get(&self, address: &Url, range: Option<&str>) -> Result<HttpResponse> {
        self.client.execute(self.request(address, range).await?).await.map_err(failed)
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
