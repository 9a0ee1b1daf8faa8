//! Asking once more: the one loop around all requests, bounded by time. The crate below tries nothing again by itself.

use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use fastresume::error::unless_it_panics;
use object_store::client::HttpError;
use object_store::{Error, Result};

use crate::counts::Counts;
use crate::outlook::Outlook;

/// A store that is away for so long is waited for: the last try begins no earlier.
pub const OUTAGE: Duration = Duration::from_secs(120);

/// One that never answered, for so long: it may be about to start, or its address is wrong.
const ABSENCE: Duration = Duration::from_secs(10);

const FIRST_WAIT: Duration = Duration::from_millis(100);

const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What seldom gets better is tried so often in all.
const FEW_TRIES: u32 = 5;

/// A try that brought so many bytes of its body was no part of an outage.
const PROGRESS_BYTES: usize = 64 << 10;

/// How long to go on asking. It has no clock: whoever asks tells the time since the first try.
#[derive(Debug)]
pub struct Patience {
    /// How long one that never answered is waited for.
    absence: Duration,
    /// When the first of the faults that are still there was seen.
    since: Option<Duration>,
    tries: u32,
    seldom: u32,
    is_renewed: bool,
    is_late: bool,
}

impl Default for Patience {
    /// That with what was there before, or is no store at all.
    fn default() -> Self {
        Self::new(OUTAGE)
    }
}

impl Patience {
    fn new(absence: Duration) -> Self {
        Self { absence, since: None, tries: 0, seldom: 0, is_renewed: false, is_late: false }
    }

    /// How long to wait before the next try; none if there is to be no other. The last one began, and failed now, so long
    /// after the first. `share` of the wait, from 0 to 1, is drawn by whoever asks.
    fn wait(&mut self, outlook: Outlook, began: Duration, now: Duration, share: f64) -> Option<Duration> {
        let own = FIRST_WAIT.saturating_mul(1 << self.tries.min(10)).min(LONGEST_WAIT);
        let own = own.mul_f64(0.5 + share.clamp(0.0, 1.0) / 2.0);
        self.tries += 1;
        match outlook {
            Outlook::Fine | Outlook::Hopeless => None,
            Outlook::Seldom => {
                self.seldom += 1;
                (self.seldom < FEW_TRIES).then_some(own)
            }
            Outlook::Moment(asked) => {
                let since = *self.since.get_or_insert(now);
                (began < since.saturating_add(OUTAGE)).then_some(own.max(asked))
            }
            Outlook::Absent => {
                let since = *self.since.get_or_insert(now);
                (began < since.saturating_add(self.absence)).then_some(own)
            }
            Outlook::Expired => (!std::mem::replace(&mut self.is_renewed, true)).then_some(Duration::ZERO),
            Outlook::Late => (!std::mem::replace(&mut self.is_late, true)).then_some(own),
        }
    }

    /// The same of a source that is no store, of whose fault time alone may mend what went wrong, or hardly anything.
    pub fn wait_for_source(
        &mut self,
        is_momentary: bool,
        began: Duration,
        now: Duration,
        share: f64,
    ) -> Option<Duration> {
        let outlook = if is_momentary { Outlook::Moment(Duration::ZERO) } else { Outlook::Seldom };
        self.wait(outlook, began, now, share)
    }

    /// Notes that the store is there, though an answer broke off.
    fn restore(&mut self) {
        (self.since, self.tries) = (None, 0);
    }
}

/// A part of a wait, not the same for all who were refused at once.
#[expect(clippy::disallowed_methods, reason = "chance decides how long is waited, and no result")]
fn share() -> f64 {
    let drawn = RandomState::new().build_hasher().finish() % 1024;
    f64::from(u16::try_from(drawn).unwrap_or(0)) / 1024.0
}

/// What was asked again in vain.
#[derive(Debug)]
struct GaveUp {
    tries: u32,
    seconds: u64,
    cause: Error,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "asked {} times in {} s: {}", self.tries, self.seconds, self.cause)
    }
}

impl std::error::Error for GaveUp {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.cause)
    }
}

/// Whether an answer was on its way, and ended early.
fn is_broken_off(cause: &Error) -> bool {
    let mut inner = std::error::Error::source(cause);
    while let Some(found) = inner {
        if found.is::<HttpError>() {
            return true;
        }
        inner = found.source();
    }
    false
}

/// What `work` gives. The crate below takes some settings for right that users may get wrong, and panics.
async fn without_panics<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = unless_it_panics(|| work.as_mut().poll(context));
        polled.unwrap_or_else(|cause| {
            let source = format!("no such request can be made: {cause}").into();
            Poll::Ready(Err(Error::Generic { store: "HTTP", source }))
        })
    })
    .await
}

/// What one try gives, which may take so long at most, and what it says of another one.
async fn tried<T>(work: impl Future<Output = Result<T>>, most: Duration) -> (Result<T>, Outlook, usize) {
    let work = tokio::time::timeout(most, without_panics(work));
    match Outlook::during(work).await {
        (Err(_), _, bytes) => {
            let source = format!("the answer did not come within {} s", most.as_secs()).into();
            (Err(Error::Generic { store: "HTTP", source }), Outlook::Late, bytes)
        }
        (Ok(Err(cause)), Outlook::Fine, bytes) => {
            let outlook =
                if is_broken_off(&cause) { Outlook::Moment(Duration::ZERO) } else { Outlook::Hopeless };
            (Err(cause), outlook, bytes)
        }
        (Ok(answered), outlook, bytes) => (answered, outlook, bytes),
    }
}

/// What `ask` gives, asked again as long as another try may mend what went wrong. A try that takes longer than `most` as a
/// whole has failed.
///
/// # Errors
/// The last one of `ask`.
pub async fn again<T, F: Future<Output = Result<T>>>(
    counts: &Counts,
    most: Duration,
    ask: impl FnMut() -> F,
) -> Result<T> {
    until(Patience::default(), counts, most, ask).await
}

/// The same where a dataset is opened: a store that never answered may have been named wrongly.
///
/// # Errors
/// As for `again`.
pub async fn again_at_first<T, F: Future<Output = Result<T>>>(
    counts: &Counts,
    most: Duration,
    ask: impl FnMut() -> F,
) -> Result<T> {
    until(Patience::new(ABSENCE), counts, most, ask).await
}

#[expect(clippy::disallowed_methods, reason = "the clock decides how often is asked, and no result")]
async fn until<T, F: Future<Output = Result<T>>>(
    mut patience: Patience,
    counts: &Counts,
    most: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let (first, mut tries) = (Instant::now(), 0);
    loop {
        let began = first.elapsed();
        let (answered, outlook, bytes) = tried(ask(), most).await;
        tries += 1;
        let cause = match answered {
            Ok(answer) => return Ok(answer),
            Err(cause) => cause,
        };
        if bytes >= PROGRESS_BYTES {
            patience.restore();
        }
        let Some(wait) = patience.wait(outlook, began, first.elapsed(), share()) else {
            return Err(match (cause, outlook) {
                (cause, Outlook::Moment(_) | Outlook::Late | Outlook::Absent) if tries > 1 => {
                    let source = Box::new(GaveUp { tries, seconds: first.elapsed().as_secs(), cause });
                    Error::Generic { store: "HTTP", source }
                }
                (cause, _) => cause,
            });
        };
        counts.note_retry();
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Outlook = Outlook::Moment(Duration::ZERO);

    /// When the last of all tries begins, and how many there are, where each fails after so long.
    fn asked(outlook: Outlook, takes: Duration, share: f64) -> (Duration, u32) {
        let (mut patience, mut began, mut tries) = (Patience::new(ABSENCE), Duration::ZERO, 1);
        while let Some(wait) = patience.wait(outlook, began, began + takes, share) {
            began += takes + wait;
            tries += 1;
            assert!(tries < 10_000, "it never ends");
        }
        (began, tries)
    }

    #[test]
    fn an_outage_of_two_minutes_is_survived_however_tries_fail() {
        for takes in [0, 1, 900, 10_000, 20_000] {
            for share in [0.0, 0.3, 1.0] {
                for asked_for in [0, 2, 30] {
                    let takes = Duration::from_millis(takes);
                    let outlook = Outlook::Moment(Duration::from_secs(asked_for));
                    let (last, _) = asked(outlook, takes, share);
                    // The outage may begin with the first try that shows it, or earlier.
                    assert!(last >= takes + OUTAGE, "{takes:?} {share} {asked_for}: {last:?}");
                    assert!(
                        last <= OUTAGE + Duration::from_secs(60),
                        "{takes:?} {share} {asked_for}: {last:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_store_that_never_answered_is_waited_for_some_seconds() {
        for (takes, most) in [(0, 16), (10_000, 31)] {
            let (last, tries) = asked(Outlook::Absent, Duration::from_millis(takes), 1.0);
            assert!(tries > 1 && last >= ABSENCE && last < Duration::from_secs(most), "{takes}: {last:?}");
        }
    }

    #[test]
    fn what_seldom_gets_better_ends_within_a_few_seconds() {
        for (outlook, most_tries) in [
            (Outlook::Hopeless, 1),
            (Outlook::Fine, 1),
            (Outlook::Expired, 2),
            (Outlook::Late, 2),
            (Outlook::Seldom, FEW_TRIES),
        ] {
            let (last, tries) = asked(outlook, Duration::ZERO, 1.0);
            assert_eq!(tries, most_tries, "{outlook:?}");
            assert!(last < Duration::from_secs(3), "{outlook:?}: {last:?}");
        }
    }

    #[test]
    fn a_store_that_was_there_meanwhile_is_waited_for_anew() {
        let mut patience = Patience::new(OUTAGE);
        let at = Duration::from_secs;
        assert!(patience.wait(MOMENT, at(0), at(0), 0.5).is_some());
        assert!(patience.wait(MOMENT, at(119), at(119), 0.5).is_some());
        patience.restore();
        assert!(patience.wait(MOMENT, at(150), at(150), 0.5).is_some());
        assert!(patience.wait(MOMENT, at(269), at(269), 0.5).is_some());
        assert!(patience.wait(MOMENT, at(270), at(270), 0.5).is_none());
    }
}
