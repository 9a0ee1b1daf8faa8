//! What is known of a file before its bytes are read, and what differs if it is another one.

use serde::{Deserialize, Serialize};

/// The size of a file, and what tells it from another one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Status {
    /// The size in bytes.
    pub size: u64,
    /// What differs if the content does.
    pub version: Version,
}

/// What differs if the content of a file does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Version {
    /// Of a local file.
    Modified {
        /// The time of its last modification in nanoseconds since 1970.
        ns: i128,
        /// The device and the number on it: two paths of one file have the same. (Links share it, too.)
        node: (u64, u64),
    },
    /// Of an object, as its store tells it.
    Object(ObjectVersion),
}

/// What a store tells of an object, which differs if its content does. Some tell less in one answer than in another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectVersion {
    /// Its `ETag`, or what its store has instead.
    pub tag: Option<Box<str>>,
    /// When it was modified, in milliseconds since 1970. Some answers tell seconds alone: so far times are compared.
    pub modified_ms: Option<i64>,
}

impl ObjectVersion {
    /// What two answers both tell: tags, else times, else nothing but the size.
    #[must_use]
    pub fn known_by(&self, other: &Self) -> KnownBy {
        match (&self.tag, &other.tag, self.modified_ms, other.modified_ms) {
            (Some(_), Some(_), ..) => KnownBy::Tags,
            (_, _, Some(_), Some(_)) => KnownBy::Times,
            _ => KnownBy::Nothing,
        }
    }

    fn modified_s(&self) -> Option<i64> {
        self.modified_ms.map(|time| time.div_euclid(1000))
    }

    fn is_same(&self, other: &Self) -> bool {
        match self.known_by(other) {
            KnownBy::Tags => self.tag == other.tag,
            KnownBy::Times => self.modified_s() == other.modified_s(),
            KnownBy::Nothing => true,
        }
    }

    /// What it is known by, as one text; an empty one if nothing is known.
    #[must_use]
    pub fn version(&self) -> String {
        match (&self.tag, self.modified_ms) {
            (Some(tag), _) => format!("tag {tag}"),
            (None, Some(time)) => format!("modified {time}"),
            (None, None) => String::new(),
        }
    }
}

/// What two answers of a store both tell of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// Tags, which differ if the content does.
    Tags,
    /// Times in seconds.
    Times,
    /// Nothing but the size.
    Nothing,
}

impl Status {
    /// The version as one text, without the number on the device.
    #[must_use]
    pub fn version(&self) -> String {
        match &self.version {
            Version::Modified { ns, .. } => ns.to_string(),
            Version::Object(object) => object.version(),
        }
    }

    /// What a store tells of an object; none of a local file.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectVersion> {
        match &self.version {
            Version::Modified { .. } => None,
            Version::Object(object) => Some(object),
        }
    }

    /// What became of a file with this status, as far as it shows; nothing if that is the status now.
    #[must_use]
    pub fn change(&self, now: &Self) -> Option<String> {
        let other_size = || Some(format!("it had {} bytes, it has {}", self.size, now.size));
        match (&self.version, &now.version) {
            (Version::Modified { node, .. }, Version::Modified { node: now, .. }) if node != now => {
                Some("another file has taken its place".into())
            }
            _ if self.size != now.size => other_size(),
            (Version::Object(before), Version::Object(now)) if before.is_same(now) => None,
            (before, now) if before == now => None,
            (Version::Modified { ns: before, .. }, Version::Modified { ns: now, .. }) => {
                let [before, now] = [*before, *now].map(seconds);
                Some(format!("it was modified {now} s after 1970, and before that {before} s"))
            }
            (before, now) => Some(format!("its version was {before}, it is {now}")),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Modified { ns, .. } => write!(formatter, "that of {} s after 1970", seconds(*ns)),
            Self::Object(ObjectVersion { tag: Some(tag), .. }) => write!(formatter, "'{tag}'"),
            Self::Object(ObjectVersion { modified_ms: Some(time), .. }) => {
                write!(formatter, "that of {} s after 1970", time.div_euclid(1000))
            }
            Self::Object(_) => write!(formatter, "not known"),
        }
    }
}

/// The number of nanoseconds in a second.
pub const SECOND_NS: i128 = 1_000_000_000;

fn seconds(ns: i128) -> String {
    format!("{}.{:09}", ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_known_by_what_both_answers_tell() {
        let of = |tag: Option<&str>, modified_ms| Status {
            size: 9,
            version: Version::Object(ObjectVersion { tag: tag.map(Box::from), modified_ms }),
        };
        let (a, b) = (Some("a"), Some("b"));
        for (listed, now, is_same) in [
            (of(a, Some(1)), of(a, Some(2)), true),
            (of(a, Some(1)), of(b, Some(1)), false),
            (of(a, Some(1)), of(None, Some(1)), true),
            (of(None, Some(1)), of(a, Some(1)), true),
            (of(a, Some(1)), of(None, Some(2000)), false),
            (of(None, Some(1)), of(None, Some(1)), true),
            (of(None, Some(5000)), of(None, Some(5999)), true),
            (of(None, Some(5999)), of(None, Some(6000)), false),
            (of(a, None), of(None, Some(2)), true),
            (of(None, None), of(b, None), true),
        ] {
            assert_eq!(listed.change(&now).is_none(), is_same, "{listed:?} {now:?}");
            let other_size = Status { size: 8, ..now };
            assert!(listed.change(&other_size).is_some());
        }
    }
}
