//! What the Hugging Face hub tells of the files of a repository.

use http::HeaderMap;
use http::header::LINK;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, Result};
use serde::Deserialize;

use crate::hub::failure::failed;

/// A file or directory, as one entry of a tree.
#[derive(Deserialize)]
struct TreeEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    path: String,
    lfs: Option<Large>,
}

/// Where a file is large, the repository has its hash in place of its content.
#[derive(Deserialize)]
struct Large {
    oid: String,
    size: u64,
}

/// A file of which no time is known.
#[allow(clippy::default_trait_access, reason = "what times are is the crate's")]
pub fn file(location: Key, size: u64, tag: Option<String>) -> ObjectMeta {
    let e_tag = tag.filter(|tag| !tag.is_empty());
    ObjectMeta { location, last_modified: Default::default(), size, e_tag, version: None }
}

/// The files of one answer. Their tags are hashes of their content.
///
/// # Errors
/// `Generic` if it is no answer of a hub.
pub fn files(answer: &[u8]) -> Result<Vec<ObjectMeta>> {
    let entries: Vec<TreeEntry> = serde_json::from_slice(answer).map_err(failed)?;
    let files = entries.into_iter().filter(|entry| entry.kind == "file").map(|entry| {
        let (hash, size) = entry.lfs.map_or((entry.oid, entry.size), |large| (large.oid, large.size));
        Ok(file(Key::parse(&entry.path)?, size, Some(hash.trim_start_matches("sha256:").to_owned())))
    });
    files.collect()
}

/// The address of the next answer, if there is one.
pub fn next(headers: &HeaderMap) -> Option<&str> {
    let links = headers.get_all(LINK).into_iter().filter_map(|value| value.to_str().ok());
    // An address may have a comma in it: each link ends behind its `>`.
    let mut each = links.flat_map(|links| links.split('<').skip(1)).filter_map(|link| link.split_once('>'));
    let is_next = |how: &str| {
        how.split(';').any(|how| matches!(how.trim().trim_end_matches(','), "rel=\"next\"" | "rel=next"))
    };
    each.find(|(_, how)| is_next(how)).map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_hash_of_their_content() {
        let answer = br#"[
            {"type": "directory", "oid": "1", "size": 0, "path": "data"},
            {"type": "file", "oid": "2", "size": 10, "path": "data/small.parquet"},
            {"type": "file", "oid": "3", "size": 999, "path": "data/a b.parquet",
             "lfs": {"oid": "abc", "size": 999, "pointerSize": 134}, "xetHash": "x"}
        ]"#;
        let found = files(answer).unwrap();
        let found: Vec<_> =
            found.iter().map(|file| (file.location.as_ref(), file.size, file.e_tag.as_deref())).collect();
        assert_eq!(found, [("data/small.parquet", 10, Some("2")), ("data/a b.parquet", 999, Some("abc"))]);
        assert!(files(b"<html>").is_err());
    }

    #[test]
    fn the_next_answer_is_linked() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(LINK, text.parse().unwrap());
            next(&headers).map(str::to_owned)
        };
        assert_eq!(of("<http://h/a?cursor=x,y>; rel=\"next\"").as_deref(), Some("http://h/a?cursor=x,y"));
        assert_eq!(
            of("<http://h/a>; rel=\"prev\", <http://h/b>; rel=\"next\"").as_deref(),
            Some("http://h/b")
        );
        assert_eq!(of("<http://h/a>; rel=\"prev\""), None);
    }
}
