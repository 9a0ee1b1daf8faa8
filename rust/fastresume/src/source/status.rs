//! What is known of a file before its bytes are read, and what differs if it is another one.

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
    /// Of an object: its `ETag`, or what its store has instead.
    Tag(Box<str>),
}

impl Status {
    /// The version as one text, without the number on the device.
    #[must_use]
    pub fn version(&self) -> String {
        match &self.version {
            Version::Modified { ns, .. } => ns.to_string(),
            Version::Tag(tag) => format!("tag {tag}"),
        }
    }

    /// The tag of an object.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Modified { .. } => None,
            Version::Tag(tag) => Some(tag),
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
            Self::Tag(tag) => write!(formatter, "'{tag}'"),
        }
    }
}

/// The number of nanoseconds in a second.
pub const SECOND_NS: i128 = 1_000_000_000;

fn seconds(ns: i128) -> String {
    format!("{}.{:09}", ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS))
}
