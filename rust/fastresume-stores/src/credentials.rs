//! Credentials that expire: asked for at each request, as the user's function gives them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use fastresume::error::quoted;
use fastresume::{Error, Result};
use object_store::aws::AwsCredential;
use object_store::azure::AzureCredential;
use object_store::client::CredentialProvider;
use object_store::gcp::GcpCredential;

use crate::option_names::is_sendable;

/// Gives credentials that expire, by the names that options have, when it is asked.
pub type CredentialsOf = Arc<dyn Fn() -> Result<BTreeMap<String, String>> + Send + Sync>;

/// Credentials that are asked for at each request; what gives them may keep them until they expire.
pub struct Renewed(pub CredentialsOf);

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
pub struct OfAws(pub Renewed);

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
pub struct OfGcp(pub Renewed);

#[async_trait]
impl CredentialProvider for OfGcp {
    type Credential = GcpCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<GcpCredential>> {
        let [bearer] = self.0.get(["bearer_token"]).await?;
        Ok(Arc::new(GcpCredential { bearer: bearer.ok_or_else(|| lacking("bearer_token"))? }))
    }
}

#[derive(Debug)]
pub struct OfAzure(pub Renewed);

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
