//! The memory of one batch's fields.

use std::sync::{Arc, Mutex};

use crate::batch::slots::interleave::{Move, split};
use crate::batch::slots::jagged::JaggedSlot;
use crate::batch::slots::pending::{PendingRows, repeat, waiting};
use crate::batch::slots::placed_rows::{PlacedFields, PlacedRows};
use crate::batch::slots::row_ids::RowIds;
use crate::error::Result;
use crate::memory::pool::{Memory, Pool};
use crate::projection::field::Field;
use crate::projection::layout::Layout;

/// The largest matrix, in bytes, that is transposed from columns when its batch is finished. Its memory was
/// freed by an earlier batch, and is still in the caches. That of larger ones would not be.
pub(crate) const TURNED_LAST_BYTES: usize = 4 << 20;

/// The memory of one batch: one slot per field, and the numbers of the rows that were written.
#[derive(Debug)]
pub struct FieldSlots {
    fields: Vec<FieldSlot>,
    written: RowIds,
}

/// A batch that several threads write to.
pub type SharedSlots = Arc<Mutex<FieldSlots>>;

#[derive(Debug)]
enum FieldSlot {
    /// Values, and the mask; the mask is empty where none is asked for.
    Scalar(Flat, Flat),
    Jagged(Box<JaggedSlot>),
}

/// Rows of one length.
#[derive(Debug)]
struct Flat {
    /// The memory that is delivered.
    memory: Memory,
    row_bytes: usize,
    /// The most bytes that it takes, wherever its rows are.
    most_bytes: u64,
    /// Rows that are not in `memory` yet: they are put in order, in memory that is allocated then, when the
    /// batch is finished.
    parts: Vec<PendingRows>,
}

impl FieldSlots {
    /// Memory for `rows` rows, from the pool; its contents are not defined. `scattered` rows bring their own
    /// memory, and so do columns that are transposed when the batch is finished.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(layout: &Layout, rows: usize, pool: &Pool, scattered: Option<usize>) -> Result<Self> {
        let flat = |row_bytes: usize, comes_later: bool| {
            let bytes = rows.saturating_mul(row_bytes);
            let (memory, most_bytes) = if comes_later {
                (pool.growing(), waiting(bytes as u64))
            } else {
                (pool.memory(bytes)?, bytes as u64)
            };
            Ok(Flat { memory, row_bytes, most_bytes, parts: Vec::new() })
        };
        let mut fields = Vec::with_capacity(layout.fields().len());
        for field in layout.fields() {
            fields.push(if field.kind.is_jagged() {
                let (width, values) = (field.element_bytes(), pool.growing());
                let slot = JaggedSlot::new(width, field.is_masked(), rows, values);
                FieldSlot::Jagged(Box::new(slot.nested(field.inner_levels(), field.marks_elements())))
            } else {
                let is_turned_last =
                    field.columns.len() > 1 && rows.saturating_mul(field.row_bytes()) <= TURNED_LAST_BYTES;
                let [values, mask] = [field.row_bytes(), field.mask_bytes()];
                let comes_later = scattered.is_some() || is_turned_last;
                FieldSlot::Scalar(flat(values, comes_later)?, flat(mask, comes_later)?)
            });
        }
        Ok(Self { fields, written: RowIds::new(scattered.unwrap_or(0)) })
    }

    /// The memory, taken out.
    #[must_use]
    pub fn taken(&mut self) -> Self {
        let Self { fields, written } = self;
        Self { fields: std::mem::take(fields), written: std::mem::take(written) }
    }

    /// Values and mask of `count` rows of a scalar field, from row `row` of the batch on.
    pub fn scalars(
        &mut self,
        (index, field): (usize, &Field),
        row: usize,
        count: usize,
    ) -> (&mut [u8], &mut [u8]) {
        let FieldSlot::Scalar(values, valid) = &mut self.fields[index] else { return (&mut [], &mut []) };
        let part = |bytes: usize| row * bytes..(row + count) * bytes;
        let [values, valid] = [values, valid].map(|flat| flat.memory.bytes_mut());
        (&mut values[part(field.row_bytes())], &mut valid[part(field.mask_bytes())])
    }

    /// The values of a scalar field, or its mask.
    pub fn scalar(&mut self, field: (usize, bool)) -> &mut [u8] {
        self.flat(field).map_or(&mut [], |flat| flat.memory.bytes_mut())
    }

    /// The values of all scalar fields, and where the numbers of written rows are noted.
    pub fn values(&mut self) -> (Vec<&mut [u8]>, &mut RowIds) {
        let values = self.fields.iter_mut().filter_map(|slot| slot.flat(false));
        (values.map(|flat| flat.memory.bytes_mut()).collect(), &mut self.written)
    }

    /// Keeps rows of a scalar field, or of its mask, until the batch is finished, unless they are in place
    /// already. The rows of a bundle, or of its masks, are kept with its first field that has any.
    pub fn keep(&mut self, field: (usize, bool), parts: impl Iterator<Item = PendingRows>) {
        let Some(flat) = self.flat(field) else { return };
        if flat.memory.is_empty() {
            flat.parts.extend(parts);
        } else {
            parts.for_each(|part| part.put(flat.row_bytes, &[], flat.memory.bytes_mut()));
        }
    }

    fn flat(&mut self, (index, is_mask): (usize, bool)) -> Option<&mut Flat> {
        self.fields[index].flat(is_mask)
    }

    /// The jagged field of this index.
    pub fn jagged(&mut self, index: usize) -> Option<&mut JaggedSlot> {
        match &mut self.fields[index] {
            FieldSlot::Jagged(slot) => Some(slot),
            FieldSlot::Scalar(..) => None,
        }
    }

    /// Where the numbers of written rows are noted.
    pub fn written(&mut self) -> &mut RowIds {
        &mut self.written
    }

    /// Finishes the batch, of which `distinct` rows were written. Rows that came scattered or as columns, those
    /// of jagged fields, and others that are placed only now, are put in order. Then copies of them, in turn, fill the batch
    /// up to `rows` rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn finish(
        &mut self,
        layout: &Layout,
        (distinct, rows): (usize, usize),
        placed: &[PlacedRows<'_>],
    ) -> Result<()> {
        if !self.written.moves().is_empty() {
            for bundle in layout.bundles() {
                self.take_apart(bundle, false, rows)?;
                self.take_apart(bundle, true, rows)?;
            }
        }
        let moves = self.written.moves();
        let mut placed = PlacedFields::new(placed, moves, self.fields.len())?;
        for (index, slot) in self.fields.iter_mut().enumerate() {
            match slot {
                FieldSlot::Scalar(values, valid) => {
                    for (flat, is_mask) in [(values, false), (valid, true)] {
                        let parts = std::mem::take(&mut flat.parts);
                        put_in_order(&parts, flat.row_bytes, moves, rows, &mut flat.memory)?;
                        if !placed.is_empty() && flat.row_bytes > 0 {
                            flat.memory.resize(rows.saturating_mul(flat.row_bytes))?;
                            placed.put((index, is_mask), flat.row_bytes, flat.memory.bytes_mut())?;
                        }
                        repeat(flat.memory.bytes_mut(), flat.row_bytes * distinct);
                    }
                }
                FieldSlot::Jagged(slot) => slot.finish(moves, distinct, rows)?,
            }
        }
        Ok(())
    }

    /// Puts the rows of a bundle, or of its masks, in order, and splits them into its fields. Until then the
    /// first of these fields holds all of them. If there is only one, its rows stay as they are.
    fn take_apart(&mut self, bundle: &[usize], is_mask: bool, rows: usize) -> Result<()> {
        let [start, .., end] = *bundle else { return Ok(()) };
        let slots = (start..).zip(&mut self.fields[start..=end]);
        let slots = slots.filter(|(index, _)| bundle.binary_search(index).is_ok());
        let flats = slots.filter_map(|(_, slot)| slot.flat(is_mask));
        let mut flats: Vec<&mut Flat> = flats.filter(|flat| flat.row_bytes > 0).collect();
        let [first, _, ..] = &mut flats[..] else { return Ok(()) };
        let (width, parts) = (first.row_bytes, std::mem::take(&mut first.parts));
        if parts.is_empty() {
            return Ok(());
        }
        let mut whole = first.memory.another();
        put_in_order(&parts, flats.len() * width, self.written.moves(), rows, &mut whole)?;
        for flat in &mut flats {
            flat.memory.resize(rows.saturating_mul(width))?;
        }
        let mut columns: Vec<_> = flats.into_iter().map(|flat| flat.memory.bytes_mut()).collect();
        split(whole.bytes(), width, &mut columns);
        Ok(())
    }

    /// Bytes of all fields but the jagged ones, rows that are still to come included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of_slot = |slot: &FieldSlot| match slot {
            FieldSlot::Scalar(values, valid) => values.most_bytes.saturating_add(valid.most_bytes),
            FieldSlot::Jagged(slot) => slot.bytes(),
        };
        self.fields.iter().map(of_slot).fold(0, u64::saturating_add)
    }

    /// The memory of each field, and the numbers of the written rows. A scalar field has values and mask. A
    /// jagged one has values, offsets and mask, with offsets and mask of inner rows, or the marks of elements, behind the
    /// values. There is no mask where none is asked for.
    #[must_use]
    pub fn into_parts(self, layout: &Layout) -> (Vec<Memory>, RowIds) {
        let mut memory = Vec::with_capacity(2 * self.fields.len());
        for (slot, field) in self.fields.into_iter().zip(layout.fields()) {
            let mask = match slot {
                FieldSlot::Scalar(values, valid) => {
                    memory.push(values.memory);
                    valid.memory
                }
                FieldSlot::Jagged(mut slot) => {
                    let inner = slot.take_inner();
                    let (values, offsets, valid) = slot.into_parts();
                    memory.push(values);
                    memory.extend(inner);
                    memory.push(offsets);
                    valid
                }
            };
            memory.extend(field.is_masked().then_some(mask));
        }
        (memory, self.written)
    }
}

impl FieldSlot {
    /// The values of a scalar field, or its mask.
    fn flat(&mut self, is_mask: bool) -> Option<&mut Flat> {
        match self {
            Self::Scalar(_, mask) if is_mask => Some(mask),
            Self::Scalar(values, _) => Some(values),
            Self::Jagged(_) => None,
        }
    }
}

/// Puts kept rows, if there are any, in order, in memory for `rows` rows.
fn put_in_order(
    parts: &[PendingRows],
    row_bytes: usize,
    moves: &[Move],
    rows: usize,
    memory: &mut Memory,
) -> Result<()> {
    if !parts.is_empty() {
        // Mostly an earlier batch freed this memory, so that it is still in the caches.
        memory.resize(rows.saturating_mul(row_bytes))?;
        for part in parts {
            part.put(row_bytes, moves, memory.bytes_mut());
        }
    }
    Ok(())
}
