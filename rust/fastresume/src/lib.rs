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
pub use self::arrow::field::{Field as ArrowField, Form as ArrowForm, MAX_DEPTH as MAX_ARROW_DEPTH};
pub use self::arrow::held_rows::HeldRows;
pub use self::arrow::row_source::{Reach, RowBatch, RowGroup, RowSource, Waiting};
pub use self::batch::bin_rows::{BinBatch, BinRows, Bins};
pub use self::batch::packing::{PackedRows, Packing};
pub use self::batch::random_access::{self, ReadRows};
pub use self::batch::slots::row_ids::{Damage, Written};
pub use self::batch::sources::{FileSource, GroupOf, Sources};
pub use self::dataset::arrow_files::{ArrowFileRows, ArrowFiles, ArrowSchemas};
pub use self::dataset::file_value::Value;
pub use self::dataset::hive_partition;
pub use self::dataset::manifest::Manifest;
pub use self::dataset::manifest_cache::Cache;
pub use self::dataset::page_checks::PageChecks;
pub use self::dataset::row_parts::{RowPart, digests};
pub use self::dataset::table_snapshot::{TableColumn, TableSnapshot};
pub use self::error::{Error, Result, bounded};
pub use self::filter::cached_rows::CachedRows;
pub use self::filter::filter_layout;
pub use self::filter::page_stats::{self, Details};
pub use self::filter::row_group_stats::{self, Bound, Facts};
pub use self::intervals::arrays;
pub use self::intervals::set::Intervals;
pub use self::memory::buffer::{self, Memory, PageLock};
pub use self::memory::vectors;
pub use self::order::comb::Comb;
pub use self::order::mixture::{Axis, Mixture, NamedStop, Source as MixtureSource, Stage, Stop};
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
pub use self::pipeline::thread_pool::{Delivered, Pipeline, Polled, UnitRows as DeliveredUnits, View};
pub use self::projection::fill::Fill;
pub use self::projection::layout::{Field, Layout};
pub use self::projection::memory_estimate::Footprint;
pub use self::projection::padding::End;
pub use self::projection::patterns;
pub use self::projection::request::{
    Cast, Codes, ColumnRules, Decimals, Entry, Expression, Pad, Policy, Request,
};
pub use self::projection::unify;
pub use self::resume::cursor::{Cursor, Identity};
pub use self::resume::growth::{Read, SourceFiles};
pub use self::resume::lanes::{Cut, Stream, WorkerId};
pub use self::resume::merge;
pub use self::resume::mixed::Axes;
pub use self::resume::mixed_order::{MixedOrder, ReadSource};
pub use self::resume::named_mixture::{Grows, NamedMixture, NamedSource, order_of};
pub use self::resume::pass::Pass;
pub use self::resume::source_places::{Run, SourcePlaces};
pub use self::resume::tail::Tail;
pub use self::resume::unit_order::UnitOrder;
pub use self::resume::units::Units;
pub use self::schema::buckets::Buckets;
pub use self::schema::dictionary::Vocabulary;
pub use self::schema::types::{Dtype, Kind};
pub use self::source::address;
pub use self::source::byte_source::Source;
pub use self::source::file_system::FileSystem;
pub use self::source::status::{KnownBy, ObjectVersion, Status, Version};
pub use self::source::store::{Object, Store};
pub use self::units::bin_table::BinTable;
pub use self::units::index::{Index, Making, Progress, Rule, UnitRows};
pub use self::units::row_costs::CostSource;
pub use self::units::sequence_table::SequenceTable;
pub use self::units::stretches;
pub use self::units::unit_table::UnitTable;
