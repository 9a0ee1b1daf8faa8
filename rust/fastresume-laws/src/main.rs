//! Property tests over the core for the laws of `docs/DESIGN.md`, section 3: see `tests/`. There is no library, so that
//! `cargo test --lib` takes this package for its features alone.
#![forbid(unsafe_code)]

fn main() {}
