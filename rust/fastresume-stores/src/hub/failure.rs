//! What goes wrong with the hub, as the error of the crate below.

use object_store::Error;

/// What is wrong, as the crate's error.
pub fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "the Hugging Face hub", source: cause.into() }
}
