//! How stores are reached: what the user named, and the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fastresume::address::AFTER_SCHEME;
use fastresume::error::{quoted, shown};
use fastresume::{Error, Result, bounded};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder};
use object_store::client::{ClientConfigKey, CredentialProvider};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};
use reqwest::Url;

use crate::address::{Address, Kind};
use crate::client::Connector;
use crate::hub::Hub;
use crate::hub_client::{HubClient, Token};
use crate::option_names::{about_values, check_endpoint, check_values, is_sendable, unknown};
use crate::page::Client;
use crate::repository::Repository;
use crate::web::Web;

/// A body that brings no byte for so long is asked for again.
pub const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the Hugging Face hub is, if nobody says otherwise.
const HUB: &str = "https://huggingface.co";

/// Gives credentials that expire, by the names that options have, when it is asked.
pub type CredentialsOf = Arc<dyn Fn() -> Result<BTreeMap<String, String>> + Send + Sync>;

/// How stores are reached. Its `Debug` form shows no value: some are secrets.
#[derive(Clone, Default)]
pub struct Options {
    /// Options by their names, as `object_store` has them.
    pub named: BTreeMap<String, String>,
    /// What gives credentials that expire.
    pub credentials: Option<CredentialsOf>,
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("named", &self.named.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// The client of the store that an address lies in.
    ///
    /// # Errors
    /// `Argument` if an option has no meaning for it, or one is missing.
    pub fn client(&self, address: &Address, connector: Connector) -> Result<Arc<dyn Client>> {
        check_values(&self.named)?;
        let client = self.client_options(address)?;
        // What fails is asked for again above.
        let (backoff, retry_timeout) = (BackoffConfig::default(), Duration::ZERO);
        let retry = RetryConfig { backoff, max_retries: 0, retry_timeout };
        let root = &address.root;
        let renewed = self.credentials.as_ref().map(|credentials| Renewed(Arc::clone(credentials)));
        // The builders have the same methods and no trait for them.
        macro_rules! built {
            ($builder:expr, $credentials:path) => {{
                let mut builder = $builder;
                if let Some(renewed) = renewed {
                    builder = builder.with_credentials(Arc::new($credentials(renewed)));
                }
                built!(builder)
            }};
            ($builder:expr) => {
                $builder
                    .with_client_options(client)
                    .with_retry(retry)
                    .with_http_connector(connector)
                    .build()
                    .map(|made| Arc::new(made) as _)
            };
        }
        let made: object_store::Result<Arc<dyn Client>> = match address.kind {
            Kind::S3 => built!(self.s3(root)?, OfAws),
            Kind::Gcs => built!(self.gcs(root)?, OfGcp),
            Kind::Azure => built!(self.azure(root)?, OfAzure),
            Kind::Hub => return self.hub(address, &connector).map(|made| Arc::new(made) as _),
            Kind::Http => {
                self.of_store::<NoKey>(Kind::Http, "a web server")?;
                return Web::new(root, &client, &connector).map(|made| Arc::new(made) as _);
            }
        };
        made.map_err(|cause| {
            let cause = cause.to_string();
            let cannot = || format!("the store of '{root}' can't be reached: {cause}");
            Error::Argument(about_values(&cause, &self.named).unwrap_or_else(cannot))
        })
    }

    /// Which of all stores an address means: where it is, and whose. No part of it is a secret.
    ///
    /// # Errors
    /// `Argument` if an option has no meaning for it.
    pub fn place(&self, address: &Address) -> Result<String> {
        use AmazonS3ConfigKey::{Endpoint, Region, S3Endpoint};
        let root = &address.root;
        let parts = match address.kind {
            Kind::S3 => {
                let builder = self.s3(root)?;
                let endpoint = [S3Endpoint, Endpoint].iter().find_map(|key| builder.get_config_value(key));
                [endpoint, builder.get_config_value(&Region)]
            }
            Kind::Gcs => [self.gcs(root)?.get_config_value(&GoogleConfigKey::BaseUrl), None],
            Kind::Azure => {
                let builder = self.azure(root)?;
                [AzureConfigKey::AccountName, AzureConfigKey::Endpoint]
                    .map(|key| builder.get_config_value(&key))
            }
            Kind::Hub => [Some(self.of_hub()?.0.to_string()), None],
            Kind::Http => [None, None],
        };
        Ok(parts.map(Option::unwrap_or_default).join(" "))
    }

    fn s3(&self, root: &str) -> Result<AmazonS3Builder> {
        let builder = AmazonS3Builder::from_env().with_url(root);
        let mut options = self.of_store::<AmazonS3ConfigKey>(Kind::S3, "S3")?;
        // What is named goes before the environment's, also where that is the endpoint of S3 alone.
        let named = |wanted| options.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        if let (Some(endpoint), None) =
            (named(AmazonS3ConfigKey::Endpoint), named(AmazonS3ConfigKey::S3Endpoint))
        {
            options.push((AmazonS3ConfigKey::S3Endpoint, endpoint));
        }
        let builder =
            options.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        for key in [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint] {
            check_endpoint("endpoint_url", builder.get_config_value(&key))?;
        }
        Ok(builder)
    }

    fn gcs(&self, root: &str) -> Result<GoogleCloudStorageBuilder> {
        let builder = GoogleCloudStorageBuilder::from_env().with_url(root);
        let options = self.of_store::<GoogleConfigKey>(Kind::Gcs, "GCS")?;
        let builder =
            options.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        check_endpoint("base_url", builder.get_config_value(&GoogleConfigKey::BaseUrl))?;
        Ok(builder)
    }

    fn azure(&self, root: &str) -> Result<MicrosoftAzureBuilder> {
        let builder = MicrosoftAzureBuilder::from_env().with_url(root);
        let options = self.of_store::<AzureConfigKey>(Kind::Azure, "Azure")?;
        let builder =
            options.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        check_endpoint("endpoint", builder.get_config_value(&AzureConfigKey::Endpoint))?;
        Ok(builder)
    }

    fn hub(&self, address: &Address, connector: &Connector) -> Result<Hub> {
        let unreached = |cause: String| {
            Error::Argument(format!("the repository of '{}' can't be reached: {cause}", address.root))
        };
        let (endpoint, token) = self.of_hub()?;
        let named = address.root.split_once(AFTER_SCHEME).and_then(|(_, rest)| Repository::parse(rest));
        let repository = named.ok_or_else(|| unreached("a part of its name is empty".into()))?;
        let client =
            HubClient::new(endpoint, token, connector).map_err(|cause| unreached(cause.to_string()))?;
        Ok(Hub::new(client, repository))
    }

    /// Where the hub is, and what lets the user in.
    fn of_hub(&self) -> Result<(Url, Token)> {
        let mut of_user = [None, None];
        for (name, value) in &self.named {
            match name.to_ascii_lowercase().trim_start_matches("hf_") {
                "endpoint" | "endpoint_url" => of_user[0] = Some(value.clone()),
                "token" => of_user[1] = Some(value.clone()),
                _ => {
                    return Err(Error::Argument(format!(
                        "storage_options: the Hugging Face hub has no option '{name}'; it has 'token' and 'endpoint'"
                    )));
                }
            }
        }
        let of_environment = ["HF_ENDPOINT", "HF_TOKEN"]
            .map(|name| std::env::var(name).ok().map(|value| value.trim().to_owned()));
        let [endpoint, token] = [0, 1].map(|index| {
            let named = of_user[index].as_ref().or(of_environment[index].as_ref());
            named.filter(|value| !value.is_empty()).cloned()
        });
        let endpoint = endpoint.as_deref().unwrap_or(HUB);
        let parsed =
            Url::parse(endpoint).ok().filter(|url| url.has_host() && url.scheme().starts_with("http"));
        let endpoint = parsed.ok_or_else(|| {
            Error::Argument(format!(
                "the endpoint of the Hugging Face hub must be as '{HUB}', found '{endpoint}'"
            ))
        })?;
        let token = match (&self.credentials, token) {
            (Some(credentials), _) => Token::Renewed(Arc::new(Renewed(Arc::clone(credentials)))),
            (None, Some(token)) => Token::Fixed(token),
            (None, None) => Token::Nobody,
        };
        Ok((endpoint, token))
    }

    /// The options that are not of every HTTP client, as this kind of store knows them.
    fn of_store<K: std::str::FromStr>(&self, kind: Kind, store: &str) -> Result<Vec<(K, &str)>> {
        let others = self.named.iter().filter(|(name, _)| client_key(name).is_none());
        let each = others.map(|(name, value)| {
            let key = name.to_ascii_lowercase().parse();
            key.map(|key| (key, value.as_str())).map_err(|_| unknown(kind, store, name))
        });
        each.collect()
    }

    fn client_options(&self, address: &Address) -> Result<ClientOptions> {
        // Who names an address without TLS means it.
        let is_plain = address.root.starts_with("http://") || self.place(address)?.contains("http://");
        let mut options = ClientOptions::default()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_read_timeout(READ_TIMEOUT)
            .with_timeout_disabled()
            .with_allow_http(is_plain);
        for certificate in certificates(address.kind)? {
            options = options.with_root_certificate(certificate);
        }
        for (name, value) in &self.named {
            if let Some(key) = client_key(name) {
                options = options.with_config(key, value);
            }
        }
        Ok(options)
    }
}

/// The certificates that the environment has the tools of a store trust beside those of the system.
fn certificates(kind: Kind) -> Result<Vec<Certificate>> {
    let Some(path) = std::env::var_os("AWS_CA_BUNDLE").filter(|path| kind == Kind::S3 && !path.is_empty())
    else {
        return Ok(Vec::new());
    };
    let wrong = |cause: String| {
        let shown = shown(Path::new(&path));
        Error::Argument(format!("AWS_CA_BUNDLE='{shown}' holds no certificates: {}", bounded(&cause)))
    };
    let bundle = std::fs::read(&path).map_err(|cause| wrong(cause.to_string()))?;
    let found = Certificate::from_pem_bundle(&bundle).map_err(|cause| wrong(cause.to_string()))?;
    if found.is_empty() { Err(wrong("expected the form PEM".into())) } else { Ok(found) }
}

/// The key of an option that every HTTP client has.
fn client_key(name: &str) -> Option<ClientConfigKey> {
    let name = name.to_ascii_lowercase();
    let name =
        ["aws_", "azure_", "google_"].iter().find_map(|store| name.strip_prefix(store)).unwrap_or(&name);
    name.parse().ok()
}

/// What an HTTP server has: no option of its own.
enum NoKey {}

impl std::str::FromStr for NoKey {
    type Err = ();

    fn from_str(_: &str) -> std::result::Result<Self, ()> {
        Err(())
    }
}

/// Credentials that are asked for at each request; what gives them may keep them until they expire.
pub struct Renewed(CredentialsOf);

impl fmt::Debug for Renewed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Renewed")
    }
}

impl Renewed {
    /// One of the credentials now.
    ///
    /// # Errors
    /// What the function failed with; or that it gave none of this name.
    pub async fn one(&self, name: &str) -> object_store::Result<String> {
        let [found] = self.get([name]).await?;
        found.ok_or_else(|| lacking(name))
    }

    /// The credentials now, and the names that `wanted` has, in its order.
    async fn get<const N: usize>(&self, wanted: [&str; N]) -> object_store::Result<[Option<String>; N]> {
        let ask = Arc::clone(&self.0);
        // It may wait for long, and for a lock of the interpreter.
        let asked = tokio::task::spawn_blocking(move || ask()).await;
        let given = asked.map_err(failed)?.map_err(failed)?;
        let short = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["aws_", "azure_storage_", "azure_", "google_", "hf_"]
                .iter()
                .find_map(|store| name.strip_prefix(store))
                .unwrap_or(&name)
                .to_owned()
        };
        let given: BTreeMap<String, String> =
            given.into_iter().map(|(name, value)| (short(&name), value)).collect();
        let found = wanted.map(|name| given.get(name).cloned());
        match wanted.iter().zip(&found).find(|(_, value)| !value.as_deref().is_none_or(is_sendable)) {
            Some((name, _)) => Err(failed(Error::Argument(format!(
                "credentials() gave '{name}' with a line's end in it, or another character that no request can have"
            )))),
            None if given.is_empty() || found.iter().any(Option::is_some) => Ok(found),
            None => {
                let names: Vec<&str> = given.keys().map(String::as_str).take(8).collect();
                Err(failed(Error::Argument(format!(
                    "credentials() must return a dict with '{}', found only {}",
                    wanted[0],
                    quoted(names.join(", "))
                ))))
            }
        }
    }
}

fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "credentials=", source: Box::new(cause) }
}

fn lacking(name: &str) -> object_store::Error {
    failed(Error::Argument(format!("credentials() must return a dict with '{name}'")))
}

#[derive(Debug)]
struct OfAws(Renewed);

#[async_trait]
impl CredentialProvider for OfAws {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let [key_id, secret_key, token] =
            self.0.get(["access_key_id", "secret_access_key", "session_token"]).await?;
        Ok(Arc::new(AwsCredential {
            key_id: key_id.ok_or_else(|| lacking("aws_access_key_id"))?,
            secret_key: secret_key.ok_or_else(|| lacking("aws_secret_access_key"))?,
            token,
        }))
    }
}

#[derive(Debug)]
struct OfGcp(Renewed);

#[async_trait]
impl CredentialProvider for OfGcp {
    type Credential = GcpCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
        let [bearer] = self.0.get(["bearer_token"]).await?;
        Ok(Arc::new(GcpCredential { bearer: bearer.ok_or_else(|| lacking("bearer_token"))? }))
    }
}

#[derive(Debug)]
struct OfAzure(Renewed);

#[async_trait]
impl CredentialProvider for OfAzure {
    type Credential = AzureCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AzureCredential>> {
        let [bearer, sas] = self.0.get(["bearer_token", "sas_token"]).await?;
        let pairs = |sas: &str| {
            let pairs = sas.trim_start_matches('?').split('&').filter_map(|pair| pair.split_once('='));
            pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
        };
        match (bearer, sas) {
            (Some(bearer), _) => Ok(Arc::new(AzureCredential::BearerToken(bearer))),
            (None, Some(sas)) => Ok(Arc::new(AzureCredential::SASToken(pairs(&sas)))),
            (None, None) => Err(lacking("bearer_token' or 'sas_token")),
        }
    }
}

/// A part of a query, which is percent-encoded.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
