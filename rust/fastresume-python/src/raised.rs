//! What a function of the user's raised in another thread: the cause of the error that tells of it.

use std::collections::VecDeque;
use std::sync::Mutex;

use fastresume::Error;
use fastresume::error::locked;
use pyo3::prelude::*;

/// So many characters of what is said of it are looked for in an error.
const LINE_CHARACTERS: usize = 100;

/// So many are kept: functions of one source are under way in several threads.
const MOST: usize = 8;

/// What was raised last, by what is said of it.
static RAISED: Mutex<VecDeque<(String, Py<PyAny>)>> = Mutex::new(VecDeque::new());

/// Notes an exception that an error tells of.
pub fn note(error: &Error, raised: Py<PyAny>) {
    let mut kept = locked(&RAISED);
    kept.push_back((first_line(&error.to_string()), raised));
    // Its objects may run code of their own when they go.
    let gone = (kept.len() > MOST).then(|| kept.pop_front()).flatten();
    drop(kept);
    drop(gone);
}

/// The exception that an error tells of, if a function of the user's raised it. It is given away once.
pub fn cause_of(message: &str) -> Option<Py<PyAny>> {
    // A forked child may find it locked for ever.
    let mut raised = RAISED.try_lock().ok()?;
    let place = raised.iter().rposition(|(line, _)| message.contains(line.as_str()))?;
    raised.remove(place).map(|(_, raised)| raised)
}

/// The beginning of a text, which an error has that tells it.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(LINE_CHARACTERS).collect()
}
