//! The laws of `docs/DESIGN.md`, section 3, as properties over the core: see `tests/`.
#![forbid(unsafe_code)]
