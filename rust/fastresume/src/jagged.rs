//! A jagged field of a batch: rows of any length, which come in any order.

use crate::column::JaggedRows;
use crate::error::Result;
use crate::memory::Memory;
use crate::transpose::Rows;

/// The rows of one jagged field of one batch.
#[derive(Debug, Default)]
pub struct JaggedSlot {
    /// Bytes of an element.
    width: usize,
    is_masked: bool,
    parts: Vec<Part>,
    /// Once all parts are there: values, offsets and mask.
    values: Memory,
    offsets: Memory,
    valid: Memory,
}

/// Rows that came together.
#[derive(Debug)]
struct Part {
    rows: JaggedRows,
    /// The row of the batch that each becomes.
    places: Places,
}

#[derive(Debug, PartialEq, Eq)]
enum Places {
    /// This one, and those behind it.
    From(usize),
    Each(Vec<u32>),
}

impl Part {
    fn place(&self, row: usize) -> usize {
        match &self.places {
            Places::From(first) => first + row,
            Places::Each(places) => places[row] as usize,
        }
    }
}

impl JaggedSlot {
    /// A slot without rows.
    pub fn new(width: usize, is_masked: bool) -> Self {
        Self { width, is_masked, ..Self::default() }
    }

    /// Copies rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn put(&mut self, rows: Rows<'_>, source: &JaggedRows) -> Result<()> {
        let mut part = JaggedRows::default();
        let places = match rows {
            Rows::Run { from, to, count } => {
                let start = source.start(from);
                part.ends.extend(source.ends[from..from + count].iter().map(|end| end - start));
                part.valid.extend_from_slice(&source.valid[from..from + count]);
                let end = part.ends.last().copied().unwrap_or(0);
                part.values.extend(&source.values.bytes()[start..start + end])?;
                Places::From(to)
            }
            Rows::Each(places) => {
                let row = |&(from, _): &(u32, u32)| source.start(from as usize)..source.ends[from as usize];
                part.values.reserve(places.iter().map(|place| row(place).len()).sum())?;
                for place in places {
                    part.values.extend(&source.values.bytes()[row(place)])?;
                    part.ends.push(part.values.len());
                    part.valid.push(source.valid[place.0 as usize]);
                }
                Places::Each(places.iter().map(|&(_, to)| to).collect())
            }
        };
        self.parts.push(Part { rows: part, places });
        Ok(())
    }

    /// Puts the rows of all parts, `distinct` in all, in their order, and repeats them up to `rows` rows.
    ///
    /// # Errors
    /// As for `put`.
    pub fn finish(&mut self, distinct: usize, rows: usize) -> Result<()> {
        let mut parts = std::mem::take(&mut self.parts);
        // The part and its row that each row of the batch is.
        let mut origin = vec![(0_u32, 0_u32); distinct];
        for (number, part) in (0..).zip(&parts) {
            for (row, index) in (0..).zip(0..part.rows.ends.len()) {
                origin[part.place(index)] = (number, row);
            }
        }
        let length = |&(part, row): &(u32, u32)| {
            let rows = &parts[part as usize].rows;
            rows.ends[row as usize] - rows.start(row as usize)
        };
        let mut offsets = Vec::with_capacity(rows + 1);
        let mut end = 0;
        offsets.push(0);
        let turns = origin.iter().cycle().take(rows);
        for origin in turns.clone() {
            end += length(origin);
            offsets.push((end / self.width.max(1)) as u64);
        }
        if self.is_masked {
            let valid = turns.clone().map(|&(part, row)| parts[part as usize].rows.valid[row as usize]);
            self.valid.extend(&valid.collect::<Vec<u8>>())?;
        }
        self.offsets = Memory::from(offsets);
        if let [part] = parts.as_mut_slice()
            && part.places == Places::From(0)
            && distinct == rows
        {
            self.values = std::mem::take(&mut part.rows.values);
            return Ok(());
        }
        self.values.reserve(end)?;
        let mut turns = turns.copied().peekable();
        while let Some((part, first)) = turns.next() {
            // Rows that lay side by side are copied together.
            let mut last = first;
            while turns.next_if_eq(&(part, last + 1)).is_some() {
                last += 1;
            }
            let rows = &parts[part as usize].rows;
            self.values.extend(&rows.values.bytes()[rows.start(first as usize)..rows.ends[last as usize]])?;
        }
        Ok(())
    }

    /// Bytes of values, offsets and mask.
    pub fn bytes(&self) -> usize {
        self.values.len() + self.offsets.len() + self.valid.len()
    }

    /// Values, offsets and mask; this is empty where none is asked for.
    pub fn into_parts(self) -> (Memory, Memory, Memory) {
        (self.values, self.offsets, self.valid)
    }
}
