//! An address, divided into the store and the object's name in it.

use std::path::{Path, PathBuf};

use fastresume::address::AFTER_SCHEME;
use fastresume::{Error, Result, bounded};
use object_store::path::Path as Key;

use crate::repository::Repository;

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
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
    pub kind: Kind,
    /// All before the name of the object, without a slash at its end.
    pub root: String,
    /// The name of the object, as the store spells it.
    pub key: Key,
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
        let kind = match scheme {
            "s3" | "s3a" => Kind::S3,
            "gs" => Kind::Gcs,
            "az" | "abfs" | "abfss" | "adl" | "azure" => Kind::Azure,
            "http" | "https" => Kind::Http,
            "hf" => Kind::Hub,
            _ => {
                return Err(Error::Argument(format!(
                    "nothing reads the address '{}': expected a path, s3://, gs://, az://, abfss://, http://, https://, hf://, or a \
                     table alone: delta:// or iceberg://",
                    shown()
                )));
            }
        };
        let (host, name) = match kind {
            Kind::Hub => Repository::divide(rest).ok_or_else(|| {
                let expected = "hf://datasets/owner/name, hf://datasets/owner/name@revision/path";
                Error::Argument(format!("the address '{}' names no dataset: expected as {expected}", shown()))
            })?,
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        if host.is_empty() {
            return Err(Error::Argument(format!("the address '{}' names no bucket or host", shown())));
        }
        if host.contains('@') && !matches!(kind, Kind::Azure | Kind::Hub) {
            return Err(Error::Argument(format!(
                "the address '{}' holds a name or password: pass it as storage_options= or credentials=",
                shown()
            )));
        }
        let key = Key::parse(name).map_err(|cause| {
            Error::Argument(format!(
                "the address '{}' names no object: {}",
                shown(),
                bounded(&cause.to_string())
            ))
        })?;
        Ok(Self { kind, root: format!("{scheme}{AFTER_SCHEME}{host}"), key })
    }

    /// The address of another object of the store.
    pub fn of(&self, key: &Key) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_store_and_a_name() {
        let address = Address::parse(Path::new("s3://bucket/day=1/a b.parquet")).unwrap();
        assert_eq!((address.kind, address.root.as_str()), (Kind::S3, "s3://bucket"));
        assert_eq!(address.key.as_ref(), "day=1/a b.parquet");
        assert_eq!(address.of(&address.key), Path::new("s3://bucket/day=1/a b.parquet"));
        let address = Address::parse(Path::new("hf://datasets/a/b@v1/day=1/a.parquet")).unwrap();
        assert_eq!((address.kind, address.root.as_str()), (Kind::Hub, "hf://datasets/a/b@v1"));
        assert_eq!(address.key.as_ref(), "day=1/a.parquet");
    }

    #[test]
    fn what_is_none_is_refused() {
        for wrong in [
            "ftp://host/a",
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
