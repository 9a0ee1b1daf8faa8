//! What a function of the user's raised in another thread: the cause of the error that tells of it.

use std::sync::Mutex;

use fastresume::Error;
use fastresume::error::locked;
use pyo3::prelude::*;

/// So many characters of what is said of it are looked for in an error.
const LINE_CHARACTERS: usize = 100;

/// What was raised last, by what is said of it.
static RAISED: Mutex<Option<(String, Py<PyAny>)>> = Mutex::new(None);

/// Notes an exception that an error tells of.
pub fn note(error: &Error, raised: Py<PyAny>) {
    *locked(&RAISED) = Some((first_line(&error.to_string()), raised));
}

/// The exception that an error tells of, if a function of the user's raised it. It is given away once.
pub fn cause_of(message: &str) -> Option<Py<PyAny>> {
    // A forked child may find it locked for ever.
    let mut raised = RAISED.try_lock().ok()?;
    raised.take_if(|(line, _)| message.contains(line.as_str())).map(|(_, raised)| raised)
}

/// The beginning of a text, which an error has that tells it.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(LINE_CHARACTERS).collect()
}
