//! Rows of which all arrays are in memory.

use std::sync::Arc;

use crate::arrow::field::ArrowField;
use crate::arrow::row_source::{Reach, RowBatch, RowGroup, RowSource};
use crate::error::{Error, Result};

/// Arrays in memory, as parts whose row groups have these rows.
#[derive(Debug)]
pub struct HeldRows {
    fields: Vec<ArrowField>,
    footer: Vec<u8>,
    /// Of each part its batches, each with its first row.
    parts: Vec<Vec<(usize, RowBatch)>>,
    /// Of each part where its row groups begin, and where the last one ends.
    starts: Vec<Vec<usize>>,
}

impl HeldRows {
    /// Parts of batches, and the rows of the row groups of each.
    #[must_use]
    pub fn new(
        fields: Vec<ArrowField>,
        footer: Vec<u8>,
        parts: Vec<Vec<RowBatch>>,
        part_rows: &[Vec<usize>],
    ) -> Self {
        let placed = |batches: Vec<RowBatch>| {
            let mut before = 0;
            let each = batches.into_iter().map(|batch| {
                let start = before;
                before += batch.rows;
                (start, batch)
            });
            each.collect()
        };
        let started = |groups: &Vec<usize>| {
            let mut before = 0_usize;
            let ends = groups.iter().map(|&rows| {
                before = before.saturating_add(rows);
                before
            });
            [0].into_iter().chain(ends).collect()
        };
        let starts = part_rows.iter().map(started).collect();
        Self { fields, footer, parts: parts.into_iter().map(placed).collect(), starts }
    }
}

impl RowSource for HeldRows {
    fn fields(&self) -> &[ArrowField] {
        &self.fields
    }

    fn footer(&self) -> &[u8] {
        &self.footer
    }

    fn reach(&self) -> Reach {
        Reach::AtHand
    }

    fn read(&self, part: usize, group: usize, columns: &[usize]) -> Result<Arc<RowGroup>> {
        let batches = self.parts.get(part).ok_or_else(|| Error::data(format!("there is no part {part}")))?;
        let starts = self.starts.get(part).and_then(|starts| starts.get(group..)?.first_chunk::<2>());
        let [start, end] =
            *starts.ok_or_else(|| Error::data(format!("part {part} has no row group {group}")))?;
        let first = batches.partition_point(|(begin, batch)| begin + batch.rows <= start);
        let those = batches[first..].iter().take_while(|(begin, _)| *begin < end);
        let sliced = those.map(|(begin, batch)| {
            let from = start.saturating_sub(*begin);
            let length = batch.rows.min(end - begin) - from;
            let mut wanted = vec![None; batch.columns.len()];
            for &number in columns {
                let column = batch.columns.get(number).and_then(Option::as_ref);
                if let (Some(place), Some(column)) = (wanted.get_mut(number), column) {
                    *place = Some(column.slice(from, length));
                }
            }
            RowBatch { rows: length, columns: wanted }
        });
        Ok(Arc::new(RowGroup::new(sliced, end.saturating_sub(start))?))
    }
}
