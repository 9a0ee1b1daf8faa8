//! What an answer, or its absence, says of another try: whether it may mend what went wrong, and how long to wait.

use std::cell::Cell;
use std::error::Error as StdError;
use std::time::Duration;

use chrono::DateTime;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use object_store::client::{HttpError, HttpErrorKind};

/// A server that is busy is given so much time at most, whatever it asks for.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// What servers call faults of the moment, whatever status they give them.
const MOMENTARY: [&str; 7] = [
    "InternalError",
    "OperationTimedOut",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "ServerBusy",
    "ServiceUnavailable",
    "SlowDown",
];

/// What they say of credentials that were right once.
const OUTLIVED: [&str; 3] = ["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"];

/// How an error begins that tells why a host's name has no address.
const LOOKUP: &str = "failed to lookup address information";

/// Where machines of clouds give credentials to what runs there.
pub const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

/// What another try may mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The answer began well.
    Fine,
    /// Nothing.
    Hopeless,
    /// Little: a few tries show whether it lasts.
    Seldom,
    /// A fault of the moment. The server asks to wait for so long.
    Moment(Duration),
    /// Nothing answers there, and nothing ever did: who asks a store for the first time has named the wrong one.
    Absent,
    /// Credentials have expired: new ones may do, once.
    Expired,
    /// The answer took too long as a whole, which one more try may mend.
    Late,
}

tokio::task_local! {
    /// Of the last answer to the requests of one try.
    static LAST: Cell<(Outlook, usize)>;
}

impl Outlook {
    /// What `work` gives, the outlook of its last answer, and how many bytes of bodies came.
    pub async fn during<T>(work: impl Future<Output = T>) -> (T, Self, usize) {
        LAST.scope(Cell::new((Self::Hopeless, 0)), async {
            let done = work.await;
            let (last, bytes) = LAST.with(Cell::get);
            (done, last, bytes)
        })
        .await
    }

    /// Notes what the last answer says.
    pub fn note(self) {
        // Without a try around it nobody asks again.
        let _ = LAST.try_with(|last| last.set((self, last.get().1)));
    }

    /// Notes that bytes of a body came.
    pub fn note_bytes(bytes: usize) {
        let _ = LAST.try_with(|last| last.set((last.get().0, last.get().1.saturating_add(bytes))));
    }

    /// That of an answer without success, of which the body names `code`.
    pub fn of_status(status: StatusCode, headers: &HeaderMap, code: Option<&str>) -> Self {
        let moment = || Self::Moment(asked_to_wait(headers));
        match (status.as_u16(), code) {
            (_, Some(code)) if MOMENTARY.contains(&code) => moment(),
            (_, Some(code)) if OUTLIVED.contains(&code) => Self::Expired,
            (401, _) => Self::Expired,
            (501 | 505, _) => Self::Hopeless,
            (408 | 425 | 429 | 500.., _) => moment(),
            _ => Self::Hopeless,
        }
    }

    /// That of a request without an answer.
    pub fn of_error(error: &HttpError) -> Self {
        for found in causes(error) {
            if let Some(found) = found.downcast_ref::<reqwest::Error>()
                && (found.is_redirect() || found.is_builder())
            {
                return Self::Hopeless;
            }
            if found.is::<rustls::Error>() && error.kind() == HttpErrorKind::Connect {
                return Self::Seldom;
            }
            let text = found.to_string();
            let is_unknown_host =
                ["Name or service not known", "No address associated", "nodename nor servname"];
            let is_no_http = text.starts_with("invalid ") && text.contains("parsed");
            if is_no_http || is_unknown_host.iter().any(|unknown| text.contains(unknown)) {
                return Self::Seldom;
            }
        }
        Self::Moment(Duration::ZERO)
    }

    /// The same where nothing answers, and nothing ever did.
    pub fn absent(self) -> Self {
        match self {
            Self::Moment(_) => Self::Absent,
            other => other,
        }
    }

    /// The worse of two.
    pub fn at_most_seldom(self) -> Self {
        match self {
            Self::Moment(_) => Self::Seldom,
            other => other,
        }
    }
}

/// An error, what it holds, and the causes below it.
pub fn causes<'a>(error: &'a HttpError) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let first: &'a (dyn StdError + 'static) = error;
    std::iter::successors(Some(first), |&found| {
        // The cause of such an error is that of what it holds, and not what it holds.
        let held = found.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        held.map(|held| held as &(dyn StdError + 'static)).or_else(|| found.source())
    })
}

/// What went wrong where the name of a host was looked up; `None` if it has an address.
pub fn unnamed(error: &HttpError) -> Option<String> {
    causes(error).map(ToString::to_string).find(|text| text.starts_with(LOOKUP))
}

/// Whether there is nothing at an address that answers.
pub fn is_nothing_there(error: &HttpError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let (mut is_connecting, mut is_nothing) = (false, false);
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<reqwest::Error>() {
            (is_connecting, is_nothing) = (found.is_connect(), found.is_timeout());
        }
        if let Some(found) = found.downcast_ref::<std::io::Error>() {
            is_nothing |=
                matches!(found.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut);
        }
        cause = found.source();
    }
    is_connecting && is_nothing
}

/// The code that an error of S3, GCS or Azure names.
pub fn code_of(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    Some(text.split_once("<Code>")?.1.split_once("</Code>")?.0.trim())
}

/// How long a server that is busy asks to wait, within reason.
fn asked_to_wait(headers: &HeaderMap) -> Duration {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let Some(asked) = text(RETRY_AFTER) else { return Duration::ZERO };
    let seconds = asked.parse().ok().or_else(|| {
        let until = DateTime::parse_from_rfc2822(asked).ok()?.timestamp();
        // The server's own clock, if it tells: that of this machine may be another one.
        let of_server = text(DATE).and_then(|date| DateTime::parse_from_rfc2822(date).ok());
        let now = of_server.map_or_else(
            || {
                let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
                i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
            },
            |date| date.timestamp(),
        );
        u64::try_from(until.saturating_sub(now)).ok()
    });
    Duration::from_secs(seconds.unwrap_or(0)).min(LONGEST_ASKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(http::HeaderName, &'static str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn statuses_and_codes_tell_what_another_try_mends() {
        use Outlook::{Expired, Hopeless, Moment};
        let moment = Moment(Duration::ZERO);
        for (status, code, expected) in [
            (400, None, Hopeless),
            (400, Some("RequestTimeout"), moment),
            (400, Some("ExpiredToken"), Expired),
            (401, None, Expired),
            (403, None, Hopeless),
            (403, Some("AccessDenied"), Hopeless),
            (403, Some("RequestTimeTooSkewed"), moment),
            (404, Some("NoSuchKey"), Hopeless),
            (408, None, moment),
            (412, None, Hopeless),
            (425, None, moment),
            (429, None, moment),
            (500, None, moment),
            (501, None, Hopeless),
            (503, Some("SlowDown"), moment),
            (504, None, moment),
            (529, None, moment),
            (200, Some("InternalError"), moment),
            (301, Some("PermanentRedirect"), Hopeless),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Outlook::of_status(status, &HeaderMap::new(), code), expected, "{status} {code:?}");
        }
    }

    #[test]
    fn a_busy_server_asks_for_seconds_or_names_a_time() {
        let date = "Sat, 28 Nov 2026 12:00:00 GMT";
        for (asked, seconds) in [
            ("3", 3),
            ("0", 0),
            ("-1", 0),
            ("4000", 30),
            ("soon", 0),
            ("Sat, 28 Nov 2026 12:00:07 GMT", 7),
            ("Sat, 28 Nov 2026 11:00:00 GMT", 0),
            ("Sun, 29 Nov 2026 12:00:00 GMT", 30),
        ] {
            let headers = headers(&[(RETRY_AFTER, asked), (DATE, date)]);
            assert_eq!(asked_to_wait(&headers), Duration::from_secs(seconds), "{asked}");
        }
        let past = headers(&[(RETRY_AFTER, "Sat, 01 Nov 1997 12:00:00 GMT")]);
        assert_eq!(asked_to_wait(&past), Duration::ZERO);
    }

    #[test]
    fn an_error_names_its_code() {
        assert_eq!(code_of(b"<Error><Code> SlowDown </Code></Error>"), Some("SlowDown"));
        assert_eq!(code_of(b"<html>"), None);
        assert_eq!(code_of(b"\xff<Code>x</Code>"), None);
    }
}
