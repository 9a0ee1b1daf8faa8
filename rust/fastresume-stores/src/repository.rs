//! A repository of data on the Hugging Face hub, as an address names it.

/// What the hub calls the revision that nobody named.
const MAIN: &str = "main";

/// The files that the hub itself makes of others, by its short name for them.
const CONVERTED: (&str, &str) = ("~parquet", "refs/convert/parquet");

/// A repository under one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// `owner/name`.
    pub name: String,
    pub revision: String,
}

impl Repository {
    /// Divides `datasets/owner/name@revision/path` into what names the repository, and the path in it.
    pub fn divide(rest: &str) -> Option<(&str, &str)> {
        let mut ends = rest.match_indices('/').map(|(at, _)| at).chain([rest.len()]);
        let (kind, _, end) = (ends.next()?, ends.next()?, ends.next()?);
        let (_, revision) = rest.get(..end)?.rsplit_once('/')?.1.split_once('@').unwrap_or_default();
        // These revisions have names with slashes: `refs/pr/1`.
        let end = match (revision, rest.get(end..).unwrap_or_default().split('/').nth(1)) {
            ("refs", Some("convert" | "pr")) => (ends.next()?, ends.next()?).1,
            _ => end,
        };
        (rest.get(..kind) == Some("datasets")).then(|| (&rest[..end], rest[end..].trim_start_matches('/')))
    }

    /// The repository that `datasets/owner/name@revision` names.
    pub fn parse(root: &str) -> Option<Self> {
        let named = root.strip_prefix("datasets/")?;
        let (name, revision) = named.split_once('@').unwrap_or((named, MAIN));
        let (owner, short) = name.split_once('/')?;
        let revision = percent_encoding::percent_decode_str(revision).decode_utf8().ok()?;
        let revision = if revision == CONVERTED.0 { CONVERTED.1 } else { &revision };
        let is_named = ![owner, short, revision].contains(&"");
        is_named.then(|| Self { name: name.to_owned(), revision: revision.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_repository_a_revision_and_a_path() {
        for (rest, root, path, name, revision) in [
            ("datasets/a/b/c/d.parquet", "datasets/a/b", "c/d.parquet", "a/b", "main"),
            ("datasets/a/b", "datasets/a/b", "", "a/b", "main"),
            ("datasets/a/b@v1.0/c", "datasets/a/b@v1.0", "c", "a/b", "v1.0"),
            ("datasets/a/b@v1%2F0/c@2", "datasets/a/b@v1%2F0", "c@2", "a/b", "v1/0"),
            ("datasets/a/b@~parquet/x", "datasets/a/b@~parquet", "x", "a/b", "refs/convert/parquet"),
            (
                "datasets/a/b@refs/convert/parquet/x",
                "datasets/a/b@refs/convert/parquet",
                "x",
                "a/b",
                "refs/convert/parquet",
            ),
            ("datasets/a/b@refs/pr/7", "datasets/a/b@refs/pr/7", "", "a/b", "refs/pr/7"),
        ] {
            assert_eq!(Repository::divide(rest), Some((root, path)), "{rest}");
            let expected = Repository { name: name.into(), revision: revision.into() };
            assert_eq!(Repository::parse(root), Some(expected), "{rest}");
        }
        for wrong in ["datasets/a", "models/a/b/c", "a/b/c", "datasets/a/b@refs/pr"] {
            assert_eq!(Repository::divide(wrong), None, "{wrong}");
        }
        for wrong in ["datasets//b", "datasets/a/b@", "datasets/a/@v1"] {
            assert_eq!(Repository::parse(wrong), None, "{wrong}");
        }
    }
}
