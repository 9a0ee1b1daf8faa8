//! The one error type of the core.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

pub use message::{bounded, plural};
pub use nearest::nearest;
pub use stop::{Stop, asking, check_thread, stop_of_thread, stopped_by};

mod message;
mod nearest;
mod stop;

/// What went wrong, and whether the argument, the state, the data or the source is at fault.
///
/// The message is lower case, names the file, row group and column where there is one, and the
/// expected and the found value. It is bounded in length, and holds no password of an address. Each kind is one
/// exception class in Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An argument that is wrong whatever the data (`ValueError`).
    #[error("{}", bounded(.0))]
    Argument(String),
    /// A resume state that is damaged or belongs to something else (`StateError`).
    #[error("{}", bounded(.0))]
    State(String),
    /// A resume state of something else than what is read (`StateError`).
    #[error("{}", bounded(message))]
    Foreign {
        /// What is another: the dataset, the selection of rows, the order, or an argument of it by its name; "growth" if
        /// files were only added.
        what: &'static str,
        /// Both values, and what to write.
        message: String,
    },
    /// A file whose content can't be used (`DataError`).
    #[error("{}", bounded(&format!("{reason}{place}")))]
    Data {
        /// What is wrong, with the expected and the found value.
        reason: String,
        /// Where it is wrong.
        place: Place,
        /// Whether the bytes are whole, and a rule of the user's, or a bound of ours, refuses what they hold.
        is_refused: bool,
        /// What to write of the column, so that it can be delivered.
        remedy: Option<Remedy>,
    },
    /// Bytes that can't be read: a path, a directory, a read (`SourceError`).
    #[error("{}", bounded(.0))]
    Source(String),
    /// Nothing has the name (`SourceError`).
    #[error("{}", bounded(.0))]
    Missing(String),
    /// Bytes of which nothing is known for now: their file was changed while it was read, or the system has no room to
    /// open it (`SourceError`). That is no damage.
    #[error("{}", bounded(.0))]
    Unsettled(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The rule of a column with which it can be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// `.optional()`
    Optional,
    /// `.decimal("float64")`
    Decimal,
    /// `.cast(torch.float64)`
    Floats,
    /// `.cast(torch.int64)`
    Integers,
}

impl Remedy {
    /// The name of the rule.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Optional => "optional",
            Self::Decimal => "decimal",
            Self::Floats => "floats",
            Self::Integers => "integers",
        }
    }
}

/// Where in the dataset something went wrong; unknown parts are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    file: Option<String>,
    row_group: Option<usize>,
    column: Option<String>,
    /// Whether it is of no one column, whichever was read when it came.
    is_of_several: bool,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.as_ref().map(|name| format!("column '{}'", on_one_line(&short(name))));
        let row_group = self.row_group.map(|index| format!("row group {index}"));
        let file = self.file.as_ref().map(|path| format!("file '{}'", on_one_line(path)));
        let parts: Vec<String> = [column, row_group, file].into_iter().flatten().collect();
        if parts.is_empty() { Ok(()) } else { write!(formatter, " ({})", parts.join(", ")) }
    }
}

/// What a state says of itself is quoted by at most so many characters.
const QUOTED_CHARACTERS: usize = 200;

/// What somebody else wrote, as an error quotes it: its beginning and end where it is long.
pub fn quoted(text: impl fmt::Display) -> String {
    message::shortened(&text.to_string(), QUOTED_CHARACTERS).into_owned()
}

/// A name that leaves room for the others.
fn short(name: &str) -> Cow<'_, str> {
    message::shortened(name, message::MOST_OF_A_NAME)
}

/// A name on one line: characters that would break the message are escaped as in a literal.
fn on_one_line(name: &str) -> String {
    let each = name
        .chars()
        .map(|char| if char.is_control() { char.escape_default().to_string() } else { char.into() });
    each.collect()
}

/// A path without the query that an address of a web server may have: it lets in, and may be a secret.
#[must_use]
pub fn without_query(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let is_of_web = [b"http://".as_slice(), b"https://"].iter().any(|scheme| bytes.starts_with(scheme));
    match bytes.iter().position(|byte| *byte == b'?') {
        Some(end) if is_of_web => Path::new(OsStr::from_bytes(&bytes[..end])),
        _ => path,
    }
}

/// A path on one line: what is no text in it stands as in a literal of bytes. Of a query no more is shown than that it is there.
#[must_use]
pub fn shown(path: &Path) -> String {
    let named = without_query(path);
    let mut text = String::new();
    for chunk in named.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&on_one_line(chunk.valid()));
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    if named != path {
        text.push_str("?...");
    }
    text
}

impl Error {
    /// A data error without a place; callers that know the place add it.
    pub fn data(reason: impl fmt::Display) -> Self {
        Self::Data { reason: reason.to_string(), place: Place::default(), is_refused: false, remedy: None }
    }

    /// The same for bytes that are whole, and hold what a rule refuses.
    pub fn refused(reason: impl fmt::Display) -> Self {
        Self::Data { reason: reason.to_string(), place: Place::default(), is_refused: true, remedy: None }
    }

    /// A data error that a rule of the column mends, as `reason` says.
    pub fn mended_by(remedy: Remedy, reason: impl fmt::Display) -> Self {
        let (reason, place) = (reason.to_string(), Place::default());
        Self::Data { reason, place, is_refused: false, remedy: Some(remedy) }
    }

    /// The same data error for a reason that is made of its own. Other errors stay as they are.
    #[must_use]
    pub fn with_reason(mut self, edit: impl FnOnce(&str) -> String) -> Self {
        if let Self::Data { reason, .. } = &mut self {
            *reason = edit(reason);
        }
        self
    }

    /// A failed operation on a path.
    pub fn source(what: &str, path: &Path, cause: impl fmt::Display) -> Self {
        Self::Source(format!("{what} '{}': {cause}", shown(path)))
    }

    /// The same for one that says nothing of the bytes.
    pub fn unsettled(what: &str, path: &Path, cause: impl fmt::Display) -> Self {
        Self::Unsettled(format!("{what} '{}': {cause}", shown(path)))
    }

    /// Whether bytes can't be read or decoded, whatever is asked of them.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Data { is_refused: false, .. } | Self::Source(_) | Self::Missing(_))
    }

    /// The same error, in this file unless one is named already.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        self.at(|place| {
            place.file.get_or_insert_with(|| shown(path));
        })
    }

    /// The same error, in this row group (counted within its file).
    #[must_use]
    pub fn in_row_group(self, index: usize) -> Self {
        self.at(|place| {
            place.row_group.get_or_insert(index);
        })
    }

    /// The same error, in this column.
    #[must_use]
    pub fn in_column(self, name: &str) -> Self {
        self.at(|place| {
            if !place.is_of_several {
                place.column.get_or_insert_with(|| name.to_owned());
            }
        })
    }

    /// The same error, of no column: several have it.
    #[must_use]
    pub fn of_several_columns(self) -> Self {
        self.at(|place| (place.column, place.is_of_several) = (None, true))
    }

    fn at(mut self, edit: impl FnOnce(&mut Place)) -> Self {
        if let Self::Data { place, .. } = &mut self {
            edit(place);
        }
        self
    }
}

/// A result of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// Ends work that the caller asked to stop.
///
/// # Errors
/// `Interrupted` once `stop` is set.
pub fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// A caught panic is reported as an error. Only other panics print a message on standard error.
fn silence_what_is_caught() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CATCHING.get() {
                report(panic);
            }
        }));
    });
}

/// Runs decoder code that may panic on damaged bytes, and turns a panic into a data error.
///
/// The third-party decoders are total on valid files, but not proven so on damaged ones. A panic there must
/// not cross into the caller.
///
/// # Errors
/// What `work` returns, or `Data` with the panic's message.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let gave_up = |message| Error::data(format!("damaged bytes: the decoder gave up: {message}"));
    unless_it_panics(work).unwrap_or_else(|message| Err(gave_up(message)))
}

/// Runs code of others that may panic, and turns a panic into its message.
///
/// # Errors
/// The message of the panic.
pub fn unless_it_panics<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    silence_what_is_caught();
    let was_catching = IS_CATCHING.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    IS_CATCHING.set(was_catching);
    result.map_err(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        message.unwrap_or("no message").to_owned()
    })
}

/// Takes the lock, even if the thread that held it panicked. No code panics while it holds one, so what the
/// lock guards is whole.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_data_error_names_column_row_group_and_file() {
        let error = Error::data("null in row 7")
            .in_column("label")
            .in_row_group(3)
            .in_file(Path::new("/data/a.parquet"))
            .in_file(Path::new("/other"));
        assert_eq!(error.to_string(), "null in row 7 (column 'label', row group 3, file '/data/a.parquet')");
    }

    #[test]
    fn names_with_line_breaks_leave_an_error_on_one_line() {
        let error = Error::data("null").in_column("a\n\u{1}é'").in_file(Path::new("/b\r.parquet"));
        assert_eq!(error.to_string(), "null (column 'a\\n\\u{1}é'', file '/b\\r.parquet')");
        let error = Error::source("can't open", Path::new(OsStr::from_bytes(b"/\xff\n\xc3\xa9")), "gone");
        assert_eq!(error.to_string(), "can't open '/\\xff\\né': gone");
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let error = caught::<()>(|| {
            let empty: [u8; 0] = [];
            let index = std::hint::black_box(3);
            Err(Error::data(empty[index]))
        });
        assert!(error.is_err_and(|error| error.to_string().contains("index out of bounds")));
    }
}
