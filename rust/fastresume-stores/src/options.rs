//! How stores are reached: what the user named, and the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastresume::address::AFTER_SCHEME;
use fastresume::error::shown;
use fastresume::{Error, Result, bounded};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};
use reqwest::Url;

use crate::address::{Address, StoreKind};
use crate::client::{CONNECT_TIMEOUT, ClientConnector, READ_TIMEOUT};
use crate::credentials::{CredentialsOf, OfAws, OfAzure, OfGcp, Renewed};
use crate::hub::client::{HubClient, Token};
use crate::hub::store::HubStore;
use crate::option_names::{about_values, check_endpoint, check_values, unknown};
use crate::page::Client;
use crate::repository::Repository;
use crate::web::Web;

/// Where the Hugging Face hub is, if nobody says otherwise.
const HUB: &str = "https://huggingface.co";

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
    pub fn client(&self, address: &Address, connector: ClientConnector) -> Result<Arc<dyn Client>> {
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
            StoreKind::S3 => built!(self.s3(root)?, OfAws),
            StoreKind::Gcs => built!(self.gcs(root)?, OfGcp),
            StoreKind::Azure => built!(self.azure(root)?, OfAzure),
            StoreKind::Hub => return self.hub(address, &connector).map(|made| Arc::new(made) as _),
            StoreKind::Http => {
                self.of_store::<NoKey>(StoreKind::Http, "a web server")?;
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
            StoreKind::S3 => {
                let builder = self.s3(root)?;
                let endpoint = [S3Endpoint, Endpoint].iter().find_map(|key| builder.get_config_value(key));
                [endpoint, builder.get_config_value(&Region)]
            }
            StoreKind::Gcs => [self.gcs(root)?.get_config_value(&GoogleConfigKey::BaseUrl), None],
            StoreKind::Azure => {
                let builder = self.azure(root)?;
                [AzureConfigKey::AccountName, AzureConfigKey::Endpoint]
                    .map(|key| builder.get_config_value(&key))
            }
            StoreKind::Hub => [Some(self.of_hub()?.0.to_string()), None],
            StoreKind::Http => [None, None],
        };
        Ok(parts.map(Option::unwrap_or_default).join(" "))
    }

    fn s3(&self, root: &str) -> Result<AmazonS3Builder> {
        let builder = AmazonS3Builder::from_env().with_url(root);
        let mut options = self.of_store::<AmazonS3ConfigKey>(StoreKind::S3, "S3")?;
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
        let options = self.of_store::<GoogleConfigKey>(StoreKind::Gcs, "GCS")?;
        let builder =
            options.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        check_endpoint("base_url", builder.get_config_value(&GoogleConfigKey::BaseUrl))?;
        Ok(builder)
    }

    fn azure(&self, root: &str) -> Result<MicrosoftAzureBuilder> {
        let builder = MicrosoftAzureBuilder::from_env().with_url(root);
        let options = self.of_store::<AzureConfigKey>(StoreKind::Azure, "Azure")?;
        let builder =
            options.into_iter().fold(builder, |builder, (key, value)| builder.with_config(key, value));
        check_endpoint("endpoint", builder.get_config_value(&AzureConfigKey::Endpoint))?;
        Ok(builder)
    }

    fn hub(&self, address: &Address, connector: &ClientConnector) -> Result<HubStore> {
        let unreached = |cause: String| {
            Error::Argument(format!("the repository of '{}' can't be reached: {cause}", address.root))
        };
        let (endpoint, token) = self.of_hub()?;
        let named = address.root.split_once(AFTER_SCHEME).and_then(|(_, rest)| Repository::parse(rest));
        let repository = named.ok_or_else(|| unreached("a part of its name is empty".into()))?;
        let client =
            HubClient::new(endpoint, token, connector).map_err(|cause| unreached(cause.to_string()))?;
        Ok(HubStore::new(client, repository))
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
    fn of_store<K: std::str::FromStr>(&self, kind: StoreKind, store: &str) -> Result<Vec<(K, &str)>> {
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
fn certificates(kind: StoreKind) -> Result<Vec<Certificate>> {
    let Some(path) =
        std::env::var_os("AWS_CA_BUNDLE").filter(|path| kind == StoreKind::S3 && !path.is_empty())
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
