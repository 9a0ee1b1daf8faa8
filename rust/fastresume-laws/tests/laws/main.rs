//! The laws of `docs/DESIGN.md`, section 3: over random histories, over random files, and by golden vectors. One
//! program, which is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use proptest::prelude::ProptestConfig;

mod damage;
mod details;
mod differential;
mod files;
mod golden;
mod growth;
mod intervals;
mod mixed_units;
mod mixture_rounds;
mod mixture_walk;
mod mixtures;
mod passes;
mod source_places;
mod units;
mod walk;

/// So many histories for each law, or as many as `FASTRESUME_CASES=100000` says.
fn config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("FASTRESUME_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { max_global_rejects: u32::MAX, ..ProptestConfig::with_cases(wanted.unwrap_or(cases)) }
}
