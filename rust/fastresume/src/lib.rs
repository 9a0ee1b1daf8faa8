//! fastresume: Parquet straight into training batches, with exact and elastic resume.
//!
//! This crate is the pure core. It has no Python, no global random state, no hash order, and no clock except
//! for monitoring (`pipeline/activity.rs`). Each room uses only those before it, in the order of the `mod`
//! lines below. The first line of a room's `mod.rs` says what it is for. Data flows through them like this:
//!
//! ```text
//! source -> format -> dataset -> order -> resume -> decode -> batch -> pipeline      cursor <- delivered batch
//! bytes     pages,    what is    which    whose,    columns   tensors, threads          '-> resume
//! at range  values    there      row      when                memory
//! ```
//!
//! A cursor is a value, and so is what is left of a pass under a cut:
//!
//! ```
//! use fastresume::{Cursor, Cut, Identity, OrderKind, Pass, Tail};
//!
//! let (fingerprint, order) = ("0".repeat(32), OrderKind::Sequential);
//! let start = Cursor::start(Identity { fingerprint, num_rows: 100, selection: None, order });
//! // Two lanes in one group, one for each rank: a rank's batch has 5 rows.
//! let pass = Pass::new(&start, Cut::new(2, 1, 5)?, Tail::Drop, 2)?;
//! assert_eq!((pass.batches(), pass.positions(0, 1)?), (10, vec![50..55]));
//!
//! let saved = pass.cursor_after(3).to_json();
//! let resumed = Pass::new(&Cursor::parse(&saved)?, Cut::new(4, 1, 5)?, Tail::Drop, 4)?;
//! assert_eq!((resumed.rows_left(), resumed.batches_left()), (70, 3));
//! # Ok::<(), fastresume::Error>(())
//! ```

pub mod error;
pub mod parallel;

mod simd;
mod memory;
mod intervals;
mod schema;
mod source;
mod arrow;
mod format;
mod ipc;
mod dataset;
mod order;
mod resume;
mod decode;
mod projection;
mod filter;
mod units;
mod batch;
mod pipeline;

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod test_files;

pub use self::arrow::array::{Array, Lent};
pub use self::arrow::field::{ArrowField, ArrowForm, MAX_DEPTH as MAX_ARROW_DEPTH};
pub use self::arrow::held_rows::HeldRows;
pub use self::arrow::row_source::{Reach, RowBatch, RowGroup, RowSource, Waiting};
pub use self::batch::bin_rows::{BinBatch, BinRows, Bins};
pub use self::batch::packing::{PackedRows, Packing};
pub use self::batch::read_rows::{self, ReadRows};
pub use self::batch::slots::row_ids::{Damage, RowIds};
pub use self::batch::sources::{FileSource, GroupOf, Sources};
pub use self::dataset::arrow_files::{ArrowFileRows, ArrowFiles, ArrowSchemas};
pub use self::dataset::file_value::FileValue;
pub use self::dataset::hive_partition;
pub use self::dataset::manifest::Manifest;
pub use self::dataset::manifest_cache::ManifestCache;
pub use self::dataset::page_checks::PageChecks;
pub use self::dataset::row_parts::{RowPart, digests};
pub use self::dataset::table_snapshot::{TableColumn, TableSnapshot};
pub use self::error::{Error, Result, bounded};
pub use self::filter::cached_rows::CachedRows;
pub use self::filter::filter_layout;
pub use self::filter::page_stats::{self, PageStats};
pub use self::filter::row_group_stats::{self, Bound, RowGroupStats};
pub use self::intervals::arrays;
pub use self::intervals::set::Intervals;
pub use self::memory::pool::{self, Memory, PageLock};
pub use self::memory::vectors;
pub use self::order::comb::Comb;
pub use self::order::mixture::{Axis, Mixture, MixtureSource, MixtureStop, NamedStop, Stage};
pub use self::order::pass_order::{Order, OrderChoice, OrderKind};
pub use self::order::period::Period;
pub use self::order::permutation::{self, Permutation};
pub use self::order::selection::Selection;
pub use self::order::split;
pub use self::order::weights::{Weights, whole_weights};
pub use self::pipeline::activity::Doing;
pub use self::pipeline::batch_reader::BatchReader;
pub use self::pipeline::counted::Counted;
pub use self::pipeline::decode_cost;
pub use self::pipeline::memory_bound::{self, MemoryBound};
pub use self::pipeline::schedule::PassOrder;
pub use self::pipeline::sequence_pass::SequencePass;
pub use self::pipeline::thread_pool::{Delivered, DeliveredUnits, Polled, ThreadPool, View};
pub use self::projection::fill::Fill;
pub use self::projection::instead::numbers_of_texts;
pub use self::projection::layout::{Field, Layout};
pub use self::projection::memory_estimate::MemoryEstimate;
pub use self::projection::padding::End;
pub use self::projection::patterns;
pub use self::projection::request::{Codes, ColumnRules, Decimals, Entry, Expression, Pad, Policy, Request};
pub use self::projection::rule_value::RuleValue;
pub use self::projection::schemas;
pub use self::resume::axes::Axes;
pub use self::resume::cursor::{Cursor, Identity};
pub use self::resume::growth::{Read, SourceFiles};
pub use self::resume::lanes::{Cut, Stream, WorkerId};
pub use self::resume::merge;
pub use self::resume::mixed_order::{MixedOrder, ReadSource};
pub use self::resume::named_mixture::{Grows, NamedMixture, NamedSource, order_of};
pub use self::resume::pass::Pass;
pub use self::resume::source_places::{Run, SourcePlaces};
pub use self::resume::tail::Tail;
pub use self::resume::unit_order::UnitOrder;
pub use self::resume::units::Units;
pub use self::schema::buckets::Buckets;
pub use self::schema::types::{Dtype, Kind};
pub use self::schema::vocabulary::Vocabulary;
pub use self::source::address;
pub use self::source::byte_source::ByteSource;
pub use self::source::file_system::FileSystem;
pub use self::source::status::{KnownBy, ObjectVersion, Status, Version};
pub use self::source::store::{ListedObject, Store};
pub use self::units::bin_table::BinTable;
pub use self::units::index::{Index, Making, Progress, UnitRows};
pub use self::units::row_costs::CostSource;
pub use self::units::rule::Rule;
pub use self::units::sequence_table::SequenceTable;
pub use self::units::stretches;
pub use self::units::unit_table::UnitTable;
