//! Property tests over the core for the laws of `docs/DESIGN.md`, section 3: see `tests/`.
#![forbid(unsafe_code)]
