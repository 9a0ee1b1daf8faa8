//! The metadata of a Parquet file: footers, page headers, page indexes and bloom filters.

pub mod thrift;
pub mod thrift_types;
pub mod thrift_writer;
pub mod writer;
pub mod lookalike;
pub mod schema_element;
pub mod footer;
pub mod column_metadata;
pub mod footer_cache;
pub mod column_chunk;
pub mod page_header;
pub mod page_index;
pub mod bloom_filter;
pub mod size_estimate;
pub mod null_count;
pub mod integer_bounds;
