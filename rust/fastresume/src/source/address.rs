//! Addresses: paths that a store understands, not the local file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What stands between the scheme of an address and the rest.
pub const AFTER_SCHEME: &str = "://";

/// The scheme of an address, as `s3` of `s3://bucket/key`; none of a path on a local disk.
#[must_use]
pub fn scheme(path: &Path) -> Option<&str> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.windows(AFTER_SCHEME.len()).position(|bytes| bytes == AFTER_SCHEME.as_bytes())?;
    let scheme = std::str::from_utf8(&bytes[..end]).ok()?;
    let is_one = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_one.then_some(scheme)
}

/// Whether an address is one of a web server, which may have a query and means one object.
#[must_use]
pub fn is_of_web(path: &Path) -> bool {
    matches!(scheme(path), Some("http" | "https"))
}

/// What an address means, however its scheme is spelt: all of one object give the same.
#[must_use]
pub fn meant(path: &Path) -> (Option<&str>, &Path) {
    let Some(scheme) = scheme(path) else { return (None, path) };
    let rest = &path.as_os_str().as_bytes()[scheme.len()..];
    let family = match scheme {
        "s3a" => "s3",
        "gcs" => "gs",
        "abfs" | "abfss" | "adl" | "azure" => "az",
        other => other,
    };
    (Some(family), Path::new(OsStr::from_bytes(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_has_one_meaning() {
        let of = |path: &'static str| meant(Path::new(path));
        assert_eq!(of("s3a://bucket/key"), of("s3://bucket/key"));
        assert_eq!(of("abfss://c@a.host/key"), of("abfs://c@a.host/key"));
        assert_ne!(of("s3://bucket/key"), of("gs://bucket/key"));
        assert_eq!(of("/data/key"), (None, Path::new("/data/key")));
    }

    #[test]
    fn an_address_begins_with_a_scheme() {
        let of = |path: &'static str| scheme(Path::new(path));
        assert_eq!(of("s3://bucket/key"), Some("s3"));
        assert_eq!(of("abfss://container@account.host/key"), Some("abfss"));
        assert_eq!(of("/data/s3://bucket"), None);
        assert_eq!(of("s3:/bucket"), None);
        assert_eq!(of("://bucket"), None);
    }
}
