//! Asking once more where an answer broke off: the crate below tries requests again, and not each body.

use std::time::{Duration, Instant};

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
        match ask().await {
            Err(cause) if is_broken_off(&cause) && begun.elapsed() + wait < WORTH => {
                counts.note_retry();
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            answered => return answered,
        }
    }
}
