//! Asking once more where an answer broke off: the crate below tries requests again, and not each body. What gives up there
//! is an error here.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use fastresume::error::unless_it_panics;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::{Error, Result};

use crate::counts::Counts;

/// So long it is worth while to ask again: what took longer was tried again below.
const WORTH: Duration = Duration::from_secs(30);

const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Whether an answer was on its way, and ended early.
fn is_broken_off(cause: &Error) -> bool {
    let mut inner = std::error::Error::source(cause);
    while let Some(found) = inner {
        if let Some(http) = found.downcast_ref::<HttpError>() {
            return http.kind() != HttpErrorKind::Connect;
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

/// What `ask` gives, asked again after faults that another try may mend.
///
/// # Errors
/// The last one of `ask`.
pub async fn again<T, F: Future<Output = Result<T>>>(
    counts: &Counts,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let (begun, mut wait) = (Instant::now(), FIRST_WAIT);
    loop {
        match without_panics(ask()).await {
            Err(cause) if is_broken_off(&cause) && begun.elapsed() + wait < WORTH => {
                counts.note_retry();
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            answered => return answered,
        }
    }
}
