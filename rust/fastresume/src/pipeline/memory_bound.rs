//! The bound on the memory of a pass, worked out before it is read.

use std::num::Saturating;

use crate::batch::bin_rows::BinRows;
use crate::batch::bunch_size::BunchSize;
use crate::batch::filler::DIVIDED_BYTES;
use crate::batch::segment::SEGMENT_BYTES;
use crate::batch::slots::fields::TURNED_LAST_BYTES;
use crate::batch::slots::interleave::GAP_BYTES;
use crate::batch::slots::pending::STRIPS;
use crate::batch::slots::sorter::PIECES;
use crate::batch::sources::FileSource;
use crate::dataset::manifest::Manifest;
use crate::format::compression::brotli::MOST_WINDOW_BYTES;
use crate::format::metadata::size_estimate::{PAGE_BYTES, PAGE_VALUES};
use crate::format::page::kept_pages::KEPT_PAGES_BYTES;
use crate::order::pass_order::Order;
use crate::pipeline::sequence_pass::SequencePass;
use crate::projection::field::Field;
use crate::projection::layout::Layout;
use crate::projection::memory_estimate::{self, MemoryEstimate};
use crate::resume::pass::Pass;
use crate::units::sequence_table::ANCHORS;

/// What a row of a shuffled segment takes beside its values: its place, and its number.
const PLACE_BYTES: usize = 32;

/// The part of a thread's memory that does not depend on the data. It is what is read ahead of a page, and
/// what codecs keep, with a Brotli window for a page that is not large.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// What connections to stores hold beside what was asked for: 256 of them at most, with 400 KiB each.
const CONNECTION_BYTES: u64 = 100 << 20;

/// A number of bytes or rows. It saturates: the greatest number is more than any memory.
pub(super) type Count = Saturating<u64>;

pub(super) const ZERO: Count = Saturating(0);

/// Batches that are ended each for itself.
pub(super) const ALONE: BunchSize = BunchSize { shift: 0, own_bytes: 0 };

pub(super) fn count(number: usize) -> Count {
    Saturating(number as u64)
}

fn rounded_up(number: Count, divisor: Count) -> Count {
    Saturating(number.0.div_ceil(divisor.0.max(1)))
}

/// The most memory that decoding the rest of a pass takes, as near as footers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// What a rank holds in decoded rows, over all its readers, with their dictionaries and footers.
    pub rank_bytes: u64,
    /// What each decoding thread adds to that.
    pub thread_bytes: u64,
    /// What one reader keeps of footers (part of `rank_bytes`).
    pub footer_bytes: u64,
    /// What a thread holds while it opens a file (part of `thread_bytes`).
    pub opening_bytes: u64,
}

impl MemoryBound {
    /// The bound for the rest of a pass that `workers` readers of each rank share: 1 without workers.
    #[must_use]
    pub fn new(manifest: &Manifest, layout: &Layout, order: &Order, pass: &Pass, workers: u64) -> Self {
        let bunch = BunchSize::new(layout, order, pass.rank_rows());
        Self::of_rows(manifest, layout, Reads::of(order, pass), bunch, workers)
    }

    /// That of bins, with as many rows in each one.
    #[must_use]
    pub fn of_bins(
        source: &FileSource,
        (order, bins): (&Order, &BinRows),
        pass: &Pass,
        workers: u64,
    ) -> Self {
        let reads = Reads::of(order, pass).of_units(bins.bins(0).rows.count());
        Self::of_rows(&source.manifest, &source.layout, reads, ALONE, workers)
    }

    /// That of sequences: of as many rows as they have on the average, of themselves, and of the lists of windows.
    #[must_use]
    pub fn of_sequences(
        source: &FileSource,
        (order, of): (&Order, &SequencePass),
        pass: &Pass,
        workers: u64,
    ) -> Self {
        let reads = Reads::of(order, pass);
        let rows = Reads { sizes: None, ..reads }.of_units(of.of(0).rows.count());
        let bound = Self::of_rows(&source.manifest, &source.layout, rows, ALONE, workers);
        let held = of_made_sequences(of, reads.rank_rows)
            + Saturating(workers.max(1)) * of_sequence_windows(of, &reads, workers);
        Self { rank_bytes: bound.rank_bytes.saturating_add(held.0), ..bound }
    }

    fn of_rows(manifest: &Manifest, layout: &Layout, reads: Reads, bunch: BunchSize, workers: u64) -> Self {
        let footprint = MemoryEstimate::new(manifest, layout);
        let most = Most::new(manifest, layout, reads, bunch, footprint);
        let workers = Saturating(workers.max(1));
        let kept = most.dictionary_bytes() + Saturating(footprint.footer_bytes);
        let held = match reads.sizes {
            Some(sizes) => most.window_bytes(workers, sizes),
            None => most.segment_and_strip_bytes(workers),
        };
        let (objects, objects_of_thread) = most.object_bytes(manifest);
        Self {
            rank_bytes: (held + workers * (kept + objects) + most.batch_bytes()).0,
            thread_bytes: (most.thread_bytes(reads.sizes.is_some()) + objects_of_thread).0,
            footer_bytes: footprint.footer_bytes,
            opening_bytes: footprint.opening_bytes,
        }
    }
}

/// The bytes of a batch of sequences, and of the one before it.
pub(super) fn of_made_sequences(of: &SequencePass, rank_rows: Count) -> Count {
    rank_rows * count(2 * of.layout.row_bytes())
}

/// The bytes of lists from which so many sequences of a source are cut, which stand in so many blocks. Around each block, tokens
/// are decoded up to the next anchors of the index.
pub(super) fn of_lists(of: &SequencePass, source: usize, sequences: Count, blocks: Count) -> Count {
    let around = Saturating(2 * ANCHORS.cost) * blocks;
    let all = of.of(source).table.tokens.iter().map(|&tokens| Saturating(tokens)).sum::<Count>();
    (sequences * count(of.length()) + around).min(all) * Saturating(of.token_bytes())
}

/// The bytes of the lists of the windows of sequences that a reader has open: one of each lane, and one that comes next.
fn of_sequence_windows(of: &SequencePass, reads: &Reads, workers: u64) -> Count {
    let Some((blocks, windows)) = reads.sizes else { return ZERO };
    let (blocks, windows) = (count(blocks), count(windows));
    let lanes = reads.lanes / (reads.world_size * Saturating(workers.max(1)));
    let open = (lanes.max(count(1)) + count(1)).min(windows);
    open * of_lists(of, 0, reads.window_rows, rounded_up(blocks, windows))
}

/// How many rows, or units, are read, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reads {
    /// All of the pass, and those of the largest window.
    pub num_rows: Count,
    pub window_rows: Count,
    /// The numbers of blocks and windows of a shuffled order.
    pub sizes: Option<(usize, usize)>,
    /// Those of a batch of one rank, and those that are left of the pass.
    pub rank_rows: Count,
    pub rows_left: Count,
    pub lanes: Count,
    pub world_size: Count,
}

impl Reads {
    fn of(order: &Order, pass: &Pass) -> Self {
        Self {
            num_rows: Saturating(order.num_rows()),
            window_rows: Saturating(order.largest_window()),
            sizes: order.sizes(),
            rank_rows: Saturating(pass.rank_rows()),
            rows_left: Saturating(pass.rows_left()),
            lanes: Saturating(pass.division().cut().lanes()),
            world_size: Saturating(pass.world_size()),
        }
    }

    /// The rows of units, of which there are so many rows, as many in each one.
    pub(super) fn of_units(self, rows: u64) -> Self {
        let rows_of = |units| rows_of_units(units, (self.num_rows, rows));
        Self {
            num_rows: Saturating(rows),
            window_rows: rows_of(self.window_rows),
            rank_rows: rows_of(self.rank_rows).max(count(1)),
            rows_left: rows_of(self.rows_left),
            ..self
        }
    }
}

/// The rows of so many units, of which there are some of so many rows.
pub(super) fn rows_of_units(units: Count, (all_units, rows): (Count, u64)) -> Count {
    let found = u128::from(units.0) * u128::from(rows);
    Saturating(u64::try_from(found.div_ceil(u128::from(all_units.0.max(1)))).unwrap_or(u64::MAX))
}

/// The largest sizes of rows, batches and pages in the pass.
pub(super) struct Most<'a> {
    layout: &'a Layout,
    reads: Reads,
    /// All rows of the pass.
    num_rows: Count,
    /// Rows of the largest row group.
    group_rows: Count,
    /// Rows of a batch of one rank, or of a bunch, and what this takes beside them.
    batch_rows: Count,
    bunch_bytes: Count,
    /// Bytes of a row on the average, and those of its marks, if all elements of lists are marked.
    row_bytes: Count,
    mark_bytes: Count,
    /// Bytes of a row without large cells, where rows are longest.
    densest_bytes: Count,
    /// What large cells add: a few rows of a row group may have all of them.
    large_bytes: Count,
    /// The bytes of a column's large pages beyond what writers make.
    large_page_bytes: Count,
    /// What a thread holds while it opens a file.
    opening_bytes: Count,
}

impl<'a> Most<'a> {
    pub(super) fn new(
        manifest: &Manifest,
        layout: &'a Layout,
        reads: Reads,
        bunch: BunchSize,
        footprint: MemoryEstimate,
    ) -> Self {
        Self {
            layout,
            reads,
            num_rows: reads.num_rows,
            group_rows: Saturating(manifest.largest_group()),
            batch_rows: Saturating(bunch.rows(reads.rank_rows.0)),
            bunch_bytes: Saturating(bunch.own_bytes),
            row_bytes: count(layout.row_bytes()),
            mark_bytes: count(mark_bytes(layout)),
            densest_bytes: Saturating(footprint.densest_row_bytes),
            large_bytes: Saturating(footprint.large_bytes),
            large_page_bytes: Saturating(footprint.large_page_bytes),
            opening_bytes: Saturating(footprint.opening_bytes),
        }
    }

    /// Bytes of `rows` rows from `groups` row groups.
    pub(super) fn bytes_of(&self, rows: Count, groups: Count) -> Count {
        let all = self.num_rows * (self.row_bytes + self.mark_bytes);
        (rows * self.densest_bytes + groups * self.large_bytes).min(all.max(count(1)))
    }

    /// Rows of a row group that are decoded in one go.
    fn segment_rows(&self) -> Count {
        self.part_rows(SEGMENT_BYTES)
    }

    /// The same where no more than so many bytes are.
    pub(super) fn part_rows(&self, bytes: u64) -> Count {
        self.group_rows.min(Saturating(bytes / self.row_bytes.0.max(1)) + count(1))
    }

    /// Bytes that are decoded in one go in a sequential order.
    fn segment_bytes(&self) -> Count {
        // At least one row, whatever its size; lists and strings that take more than expected up to the end
        // of a batch.
        let whole = (self.segment_rows() * self.densest_bytes).max(Saturating(SEGMENT_BYTES));
        let divided = count(DIVIDED_BYTES) + self.bytes_of(self.batch_rows, count(1));
        (whole + self.large_bytes).min(divided)
    }

    /// Bytes of dictionaries that parts of a row group share: no more are kept than its rows take.
    fn dictionary_bytes(&self) -> Count {
        // Reused memory may be an eighth larger than was asked for.
        self.bytes_of(self.group_rows, count(1)).min(Saturating(KEPT_PAGES_BYTES)) / count(8) * count(9)
    }

    /// Bytes of a batch, whose padding repeats rows.
    pub(super) fn batch_bytes(&self) -> Count {
        self.batch_rows * self.densest_bytes + self.large_bytes
    }

    /// Bytes of the windows that the readers of a rank have open.
    fn window_bytes(&self, workers: Count, (blocks, windows): (usize, usize)) -> Count {
        let (blocks, windows) = (count(blocks), count(windows));
        let Reads { window_rows, lanes, world_size, rows_left, .. } = self.reads;
        let of_reader = (lanes / (world_size * workers)).max(count(1));
        let open = workers * open_windows(of_reader, rows_left / lanes, windows, window_rows);
        // Each block may come from another row group. A shuffled row is held with its number.
        let rows = self.bytes_of(window_rows, rounded_up(blocks, windows));
        let held = in_pieces(rows);
        let number_bytes = count(size_of::<u64>());
        let bunches = rounded_up(window_rows, self.batch_rows) + count(1);
        open * (held + window_rows * number_bytes + bunches * self.bunch_bytes)
            + self.batch_rows * number_bytes
    }

    /// Bytes of the segments that the lanes of a rank have open, and of the strips that hold columns
    /// meanwhile.
    fn segment_and_strip_bytes(&self, workers: Count) -> Count {
        let Reads { lanes, world_size, .. } = self.reads;
        let open = if lanes > count(1) { lanes / world_size } else { workers };
        let held = self.segment_bytes().min(self.num_rows * (self.row_bytes + self.mark_bytes));
        open * (held + self.strip_bytes())
    }

    /// Bytes of columns beside their values, until matrices are made of them.
    ///
    /// A strip stays until the last of its batches is finished, and there are gaps between columns.
    fn strip_bytes(&self) -> Count {
        let last = self.matrices().filter(|field| self.is_turned_last(field));
        let (width, columns) = last.fold((ZERO, ZERO), |(width, columns), field| {
            (width + whole_bytes(field), columns + count(field.columns.len()))
        });
        let rows = rounded_up(self.segment_rows(), count(STRIPS));
        let gaps = count(STRIPS) * (count(2 * GAP_BYTES) * columns).min(rows * width / count(8));
        (rows + self.batch_rows) * width + gaps
    }

    /// Bytes of objects that are on their way to a reader, and those that each of its threads adds.
    pub(super) fn object_bytes(&self, manifest: &Manifest) -> (Count, Count) {
        if manifest.holds_rows() {
            return self.held_row_bytes(manifest);
        }
        if !manifest.has_objects() {
            return (ZERO, ZERO);
        }
        let budget = Saturating(manifest.read_bytes());
        // Reused memory may be an eighth larger than was asked for; connections have what the system brought.
        let ahead = budget / count(8) * count(9) + budget.min(Saturating(CONNECTION_BYTES));
        // A row group that is decoded is asked for whatever the budget is.
        let group = self.bytes_of(self.group_rows, count(1));
        (ahead, if group > budget { group / count(8) * count(9) } else { ZERO })
    }

    /// Bytes of rows of a source that a reader holds until they are decoded, and those that each of its threads adds.
    fn held_row_bytes(&self, manifest: &Manifest) -> (Count, Count) {
        let schemas = 0..manifest.schemas().count();
        let each = schemas.map(|schema| memory_estimate::held_row_bytes(manifest, self.layout, schema));
        let row_bytes = Saturating(each.max().unwrap_or(0));
        let all = Saturating(manifest.num_rows()) * row_bytes;
        // A row group that is decoded is asked for whatever the budget is.
        (all.min(Saturating(manifest.read_bytes())), self.group_rows * row_bytes)
    }

    /// Bytes that a thread holds while it decodes a segment.
    pub(super) fn thread_bytes(&self, is_shuffled: bool) -> Count {
        // Lists and strings of a row: mean bytes, and bytes where they are longest.
        let flat_bytes = self.flat().map(whole_bytes).fold(ZERO, |sum, bytes| sum + bytes);
        let (jagged, densest) = (self.row_bytes - flat_bytes, self.densest_bytes - flat_bytes);
        // For what is made of several columns, or of scattered rows: the bytes and columns of each.
        let sizes = |field: &Field| (whole_bytes(field), count(field.columns.len()));
        let (at_once, bundle_bytes): (Vec<_>, Count) = if is_shuffled {
            // Single columns are put together so that rows in any order are moved once.
            let (bytes, columns) = self.layout.widest_bundle();
            let bundle = (count(bytes), count(columns));
            (self.flat().map(sizes).chain([bundle]).collect(), bundle.0)
        } else {
            // Others are decoded in place, or stay where they are until their batch is finished.
            (self.matrices().filter(|field| !self.is_turned_last(field)).map(sizes).collect(), ZERO)
        };
        let widest = at_once.iter().map(|&(bytes, _)| bytes).max().unwrap_or(ZERO);
        let columns = at_once.iter().map(|&(_, columns)| columns).filter(|&columns| columns > count(1)).max();
        // Growing memory has room for as much again.
        let (two, rows) = (count(2), self.segment_rows());
        let decoded = if is_shuffled {
            rows * (two * densest + two * widest + count(PLACE_BYTES)) + two * self.large_bytes
        } else {
            rows * (two * jagged + two * widest) + self.large_bytes
        };
        // While a batch is finished, its lists, strings and bundles are held twice: as they came, and in
        // order.
        let ended = self.batch_rows * (densest + bundle_bytes) + self.large_bytes;
        let gaps = count(2 * GAP_BYTES) * columns.unwrap_or(ZERO);
        decoded + ended + gaps + self.page_bytes(jagged) + count(READ_AHEAD_BYTES) + self.opening_bytes
    }

    /// Bytes of a page, stored and decompressed, and of a dictionary, stored and delivered.
    fn page_bytes(&self, jagged: Count) -> Count {
        let cells = self.group_rows.min(Saturating(PAGE_VALUES)) * jagged.max(count(size_of::<u64>()));
        let beyond = cells + self.large_page_bytes;
        let pages = count(2) * (Saturating(PAGE_BYTES) + beyond) + Saturating(PAGE_BYTES);
        // Footers have the codecs, but manifests don't keep them. It may be Brotli, which expands a page to a
        // window of its own first, of less than twice the page's bytes.
        pages + (count(2) * beyond).min(count(MOST_WINDOW_BYTES))
    }

    /// The tensors whose rows have one length.
    fn flat(&self) -> impl Iterator<Item = &'a Field> {
        self.layout.fields().iter().filter(|field| !field.kind.is_jagged())
    }

    /// Those that are made of several columns.
    fn matrices(&self) -> impl Iterator<Item = &'a Field> {
        self.flat().filter(|field| field.columns.len() > 1)
    }

    /// Whether a matrix is made when its batch is finished, and not when it is decoded.
    fn is_turned_last(&self, matrix: &Field) -> bool {
        self.batch_rows * count(matrix.row_bytes()) <= count(TURNED_LAST_BYTES)
    }
}

/// What rows take that are sorted into pieces: the last of these may not be full, and the first one stays until all of its rows
/// were taken.
pub(super) fn in_pieces(bytes: Count) -> Count {
    bytes * count(PIECES + 2) / count(PIECES)
}

/// The most that the marks of a row's elements take on the average.
fn mark_bytes(layout: &Layout) -> usize {
    let marked = layout.fields().iter().filter(|field| field.kind.is_jagged() && field.marks_elements());
    let narrowest = marked.map(|field| field.dtype.width().max(1)).min();
    narrowest.map_or(0, |width| layout.jagged_row_bytes().div_ceil(width))
}

/// Bytes of a row of a tensor, with its mask.
fn whole_bytes(field: &Field) -> Count {
    count(field.row_bytes()) + count(field.mask_bytes())
}

/// The number of windows that one reader has open: one for each of its lanes.
///
/// A window that two lanes share is opened for both when the later lane begins. If lanes are as short as two
/// windows, the earlier lane has most of its first window open then, too.
fn open_windows(lanes: Count, lane_rows: Count, windows: Count, window_rows: Count) -> Count {
    if lane_rows > count(2) * window_rows { lanes } else { (count(2) * lanes - count(1)).min(windows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lanes_have_the_windows_that_they_share_open_as_well() {
        let open = |lanes, lane_rows, windows| {
            open_windows(count(lanes), count(lane_rows), count(windows), count(100)).0
        };
        assert_eq!([open(4, 201, 50), open(4, 200, 50), open(4, 200, 6), open(1, 1, 9)], [4, 7, 6, 1]);
    }
}
