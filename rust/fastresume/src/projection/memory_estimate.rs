//! How much rows take where they are most, as near as footers tell.

use std::collections::HashSet;

use crate::dataset::manifest::Manifest;
use crate::decode::open_file::OPEN_FILES;
use crate::format::metadata::column_metadata::{CHUNK_BYTES, LEAF_BYTES, PARSED_CHUNK_BYTES};
use crate::format::metadata::footer_cache;
use crate::format::metadata::size_estimate::SizeEstimate;
use crate::projection::layout::Layout;
use crate::projection::schemas::places;
use crate::schema::types::Dtype;

/// A sum of more is no use to anybody, and could not be added to.
const MAX_BYTES: u64 = 1 << 60;

/// How much the rows of a layout take where they are most, as near as footers tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Mean bytes of a row without large cells over all tensors, of each in the row group in which they are most.
    pub densest_row_bytes: u64,
    /// What the large cells of one row group add to that, at most: any few rows may have all of them.
    pub large_bytes: u64,
    /// What the pages of one column may have, decompressed, beyond those that writers make where cells are small.
    pub large_page_bytes: u64,
    /// What is kept of footers, at most.
    pub footer_bytes: u64,
    /// What a thread has beside that while it opens a file, at most.
    pub opening_bytes: u64,
}

/// What a row of a source takes in Arrow's memory until it is decoded: the values of the columns that are read, and their bits.
#[must_use]
pub fn held_row_bytes(manifest: &Manifest, layout: &Layout, schema: usize) -> u64 {
    let read: HashSet<&str> = layout.columns(schema).iter().map(|column| column.name.as_str()).collect();
    let columns = manifest.columns(schema).iter().enumerate();
    let of_read = columns.filter(|(_, column)| read.contains(column.name.as_str()));
    let bytes = of_read.map(|(index, _)| manifest.column_bytes(schema, index).saturating_add(1));
    bytes.fold(0, u64::saturating_add).min(MAX_BYTES)
}

impl MemoryEstimate {
    /// The footprint of a layout of the columns of a manifest.
    #[must_use]
    pub fn new(manifest: &Manifest, layout: &Layout) -> Self {
        let mut most = Self::default();
        let by_name: Vec<_> = manifest.schemas().map(|(columns, _)| places(columns)).collect();
        for field in layout.fields() {
            let is_counted = field.kind.is_jagged() || field.padding.is_some();
            let name = field.columns.first().filter(|_| is_counted);
            let in_schemas = manifest.schemas().zip(&by_name).enumerate();
            let extents = in_schemas.filter_map(|(schema, ((columns, _), by_name))| {
                let place = *by_name.get(name?.as_str())?;
                // As its values would be delivered if nothing else became of them.
                let width = columns[place].dtype.map_or(1, Dtype::width) as u64;
                let element_bytes = field.dtype.width() as u64 + u64::from(field.marks_elements());
                Some(manifest.extent(schema, place)?.of_width(element_bytes, width))
            });
            let extent = extents.fold(SizeEstimate::default(), SizeEstimate::and);
            let row_bytes = if field.kind.is_jagged() {
                extent.densest.saturating_add(size_of::<u64>() as u64)
            } else {
                field.row_bytes() as u64
            };
            let row_bytes = row_bytes.saturating_add(field.mask_bytes() as u64);
            most.densest_row_bytes = most.densest_row_bytes.saturating_add(row_bytes).min(MAX_BYTES);
            most.large_bytes = most.large_bytes.saturating_add(extent.large).min(MAX_BYTES);
        }
        let (mut file_bytes, mut opening_bytes) = (0, 0);
        for (schema, (columns, _)) in manifest.schemas().enumerate() {
            let size = manifest.schema(schema).footer;
            let leaves: HashSet<usize> = layout.columns(schema).iter().map(|column| column.leaf).collect();
            let kept = size.row_groups.saturating_mul((leaves.len() * CHUNK_BYTES + size_of::<u64>()) as u64);
            file_bytes = file_bytes.max(kept.saturating_add((leaves.len() * LEAF_BYTES) as u64));
            // The footer as it was read, what of it is parsed, its texts, and one row group, parsed.
            let parsed = (columns.len() * (LEAF_BYTES + 2 * PARSED_CHUNK_BYTES)) as u64;
            opening_bytes = opening_bytes.max(size.bytes.saturating_mul(3).saturating_add(parsed));
        }
        // A file that two threads open at once is there twice for a moment.
        most.opening_bytes = opening_bytes.saturating_add(file_bytes).min(MAX_BYTES);
        let files = manifest.files().len();
        let open = file_bytes.saturating_mul(files.min(OPEN_FILES) as u64);
        // Those of dictionaries that are gathered first are asked for by themselves.
        let known = file_bytes.saturating_mul(2 * files as u64).min(footer_cache::MAX_BYTES as u64);
        most.footer_bytes = open.saturating_add(known).min(MAX_BYTES);
        let read: HashSet<&str> =
            layout.fields().iter().flat_map(|field| field.columns.iter().map(String::as_str)).collect();
        for (schema, (columns, _)) in manifest.schemas().enumerate() {
            let of_columns =
                columns.iter().enumerate().filter(|(_, column)| read.contains(column.name.as_str()));
            let pages = of_columns.map(|(place, _)| manifest.large_page_bytes(schema, place)).max();
            most.large_page_bytes = most.large_page_bytes.max(pages.unwrap_or(0));
        }
        most
    }
}
