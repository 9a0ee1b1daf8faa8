//! An address, divided into the store and the object's name in it.

use std::path::{Path, PathBuf};

use fastresume::address::{AFTER_SCHEME, meant};
use fastresume::{Error, Result, bounded};
use object_store::path::Path as Key;

use crate::repository::Repository;

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    S3,
    Gcs,
    Azure,
    Http,
    /// The Hugging Face hub.
    Hub,
}

/// `s3://bucket/a/b`: the kind, `s3://bucket`, and `a/b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub kind: StoreKind,
    /// All before the name of the object, without a slash at its end.
    pub root: String,
    /// The name of the object, as the store spells it. That of a web server is all of path and query, in one part.
    pub key: Key,
    /// Whether it ends in a slash, and means no object but those below.
    pub is_directory: bool,
}

/// Schemes of others, and what to write here.
const OF_OTHERS: [(&str, &str); 7] = [
    ("odps", "fr.ArrowDataset(fr.maxcompute.open('odps://project/tables/table'), batch_size=n)"),
    ("kafka", "fastresume.kafka.KafkaDataset('kafka://broker:9092/topic', batch_size=n)"),
    ("wasb", "abfss://container@account.dfs.core.windows.net/path"),
    ("wasbs", "abfss://container@account.dfs.core.windows.net/path"),
    ("oss", "s3://bucket/path, with storage_options={'endpoint_url': 'https://oss-REGION.aliyuncs.com'}"),
    ("cos", "s3://bucket/path, with storage_options={'endpoint_url': 'https://cos.REGION.myqcloud.com'}"),
    (
        "r2",
        "s3://bucket/path, with storage_options={'endpoint_url': 'https://ACCOUNT.r2.cloudflarestorage.com'}",
    ),
];

/// Path and query of an address of a web server as one part of a name, which keeps all of its characters.
fn name_on_web(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

impl Address {
    /// Divides an address.
    ///
    /// # Errors
    /// `Argument` if no store has such addresses, or its name is not one of an object.
    pub fn parse(address: &Path) -> Result<Self> {
        let shown = || fastresume::error::shown(address);
        let text = address.to_str();
        let text = text.ok_or_else(|| Error::Argument(format!("the address '{}' is no text", shown())))?;
        let (scheme, rest) = text.split_once(AFTER_SCHEME).unwrap_or(("", text));
        let Some(kind) = kind_of(address) else {
            let instead = OF_OTHERS.iter().find(|(other, _)| *other == scheme);
            if let Some((_, instead)) = instead {
                return Err(Error::Argument(format!(
                    "nothing reads the address '{}': write {instead}",
                    shown()
                )));
            }
            // A path loses the slashes that it ends with.
            if is_scheme_alone(text) {
                return Err(Error::Argument(format!(
                    "the address '{}//' names no bucket or host",
                    text.trim_end_matches('/')
                )));
            }
            return Err(Error::Argument(format!(
                "nothing reads the address '{}': expected a path, s3://, gs://, az://, abfss://, http://, https://, hf://, or a \
                     table alone: delta:// or iceberg://",
                shown()
            )));
        };
        let (host, name) = match kind {
            StoreKind::Hub => Repository::divide(rest).ok_or_else(|| {
                let expected = "hf://datasets/owner/name, hf://datasets/owner/name@revision/path";
                let copied = if rest.starts_with("buckets/") {
                    "; buckets are not read: copy one by huggingface_hub.sync_bucket(), and name the copy's path"
                } else {
                    ""
                };
                let message = format!("the address '{}' names no dataset: expected as {expected}{copied}", shown());
                Error::Argument(message)
            })?,
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        if host.is_empty() {
            return Err(Error::Argument(format!("the address '{}' names no bucket or host", shown())));
        }
        if host.contains('@') && !matches!(kind, StoreKind::Azure | StoreKind::Hub) {
            return Err(Error::Argument(format!(
                "the address '{}' holds a name or password: pass it as storage_options= or credentials=",
                shown()
            )));
        }
        let is_directory = name.ends_with('/') && kind != StoreKind::Http;
        let whole = name_on_web(name);
        let key = Key::parse(if kind == StoreKind::Http { &whole } else { name }).map_err(|cause| {
            Error::Argument(format!(
                "the address '{}' names no object: {}",
                shown(),
                bounded(&cause.to_string())
            ))
        })?;
        // The crate below knows one spelling.
        let scheme = if scheme == "gcs" { "gs" } else { scheme };
        Ok(Self { kind, root: format!("{scheme}{AFTER_SCHEME}{host}"), key, is_directory })
    }

    /// The address of another object of the store.
    pub fn of(&self, key: &Key) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.root))
    }
}

/// The store that reads an address; `None` if none does.
fn kind_of(address: &Path) -> Option<StoreKind> {
    match meant(address).0? {
        "s3" => Some(StoreKind::S3),
        "gs" => Some(StoreKind::Gcs),
        "az" => Some(StoreKind::Azure),
        "http" | "https" => Some(StoreKind::Http),
        "hf" => Some(StoreKind::Hub),
        _ => None,
    }
}

/// Whether an address is a scheme that is read, and nothing else.
fn is_scheme_alone(text: &str) -> bool {
    let scheme = text.trim_end_matches('/').strip_suffix(':');
    scheme.is_some_and(|scheme| kind_of(Path::new(&format!("{scheme}{AFTER_SCHEME}bucket"))).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_store_and_a_name() {
        let address = Address::parse(Path::new("s3://bucket/day=1/a b.parquet")).unwrap();
        assert_eq!((address.kind, address.root.as_str()), (StoreKind::S3, "s3://bucket"));
        assert_eq!(address.key.as_ref(), "day=1/a b.parquet");
        assert_eq!(address.of(&address.key), Path::new("s3://bucket/day=1/a b.parquet"));
        assert!(!address.is_directory);
        let address = Address::parse(Path::new("s3://bucket/day=1/")).unwrap();
        assert_eq!((address.key.as_ref(), address.is_directory), ("day=1", true));
        let address = Address::parse(Path::new("gcs://bucket/a")).unwrap();
        assert_eq!((address.kind, address.root.as_str()), (StoreKind::Gcs, "gs://bucket"));
        let address = Address::parse(Path::new("https://host/a%20b//c?x=/y&z=1")).unwrap();
        assert_eq!((address.root.as_str(), address.is_directory), ("https://host", false));
        let address = Address::parse(Path::new("hf://datasets/a/b@v1/day=1/a.parquet")).unwrap();
        assert_eq!((address.kind, address.root.as_str()), (StoreKind::Hub, "hf://datasets/a/b@v1"));
        assert_eq!(address.key.as_ref(), "day=1/a.parquet");
    }

    #[test]
    fn what_is_none_is_refused() {
        for (other, instead) in [
            ("wasbs://c@a.blob.core.windows.net/x", "write abfss://"),
            ("oss://b/x", "write s3://"),
            ("hf://buckets/a/b/c", "hf://datasets/"),
            ("s3:/", "'s3://' names no bucket"),
            ("gcs://", "'gcs://' names no bucket"),
        ] {
            let message = Address::parse(Path::new(other)).unwrap_err().to_string();
            assert!(message.contains(instead), "{message}");
        }
        for wrong in [
            "ftp://host/a",
            "s3:/",
            "s3:///key",
            "s3://bucket/a//b",
            "https://user:word@host/a",
            "hf://a/b/c",
            "hf://datasets/a",
        ] {
            assert!(matches!(Address::parse(Path::new(wrong)), Err(Error::Argument(_))), "{wrong}");
        }
    }
}
