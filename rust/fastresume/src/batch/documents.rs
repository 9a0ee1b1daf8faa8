//! Rows of lists, from which sequences are cut.

use std::ops::Range;

use crate::batch::packing::Packing;
use crate::decode::decoder::JaggedRows;
use crate::error::{Error, Result};
use crate::memory::vectors::{push, room_for};

/// Rows of lists, from which sequences are cut.
#[derive(Debug, Default)]
pub struct Documents {
    /// The lists of each column.
    pub columns: Vec<JaggedRows>,
    /// The bytes of an element of each.
    pub widths: Vec<usize>,
    /// The tokens before the first list, counted as `ends` are.
    pub first: u64,
    /// Where each list that is not empty ends among the tokens, separators included.
    pub ends: Vec<u64>,
    /// The numbers of the rows of these.
    pub rows: Vec<u64>,
}

/// The memory of sequences that are filled one after another.
pub struct SequenceMemory<'a> {
    /// The bytes of each column.
    columns: Vec<&'a mut [u8]>,
    /// Which document of its sequence each token is of, and its place there.
    document: &'a mut [i32],
    position: &'a mut [i32],
}

/// A sequence that is being filled.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The token of the memory where it begins.
    at: usize,
    /// How many tokens it has, and of how many documents.
    filled: usize,
    documents: i32,
}

impl Documents {
    /// Refuses nulls in lists, and lists of other lengths than those of the first column.
    ///
    /// # Errors
    /// `Data`, naming a column.
    pub fn check(&self, packing: &Packing) -> Result<()> {
        for (name, column) in packing.names.iter().zip(&self.columns) {
            if column.marks.has_nulls() {
                return Err(Error::refused(format!(
                    "column '{name}': an element of a list is null, and has no number in a sequence: \
                     fr.col('{name}').fill_null(value) says which one it gets"
                )));
            }
        }
        let mut each = packing.names.iter().zip(&self.columns).zip(&self.widths);
        let Some(((first, column), &width)) = each.next() else { return Ok(()) };
        let ends = column.ends.iter().map(|end| end / width);
        let is_other = |of: &JaggedRows, width: usize| of.ends.iter().map(|end| end / width).ne(ends.clone());
        match each.find(|((_, column), width)| is_other(column, **width)) {
            None => Ok(()),
            Some(((name, _), _)) => Err(Error::data(format!(
                "column '{name}': its lists have other lengths than those of '{first}'"
            ))),
        }
    }

    /// Notes where documents end, of these rows, of which one after another is in the columns.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn count(&mut self, rows: impl Iterator<Item = u64>, packing: &Packing) -> Result<()> {
        let (Some(column), Some(&width)) = (self.columns.first(), self.widths.first()) else { return Ok(()) };
        room_for(&mut self.ends, column.ends.len())?;
        room_for(&mut self.rows, column.ends.len())?;
        let (mut before, mut end) = (0, self.first);
        for (row, &bytes) in rows.zip(&column.ends) {
            if bytes > before {
                end += ((bytes - before) / width) as u64 + u64::from(packing.separators.is_some());
                self.ends.push(end);
                self.rows.push(row);
            }
            before = bytes;
        }
        Ok(())
    }

    /// The token behind the last list.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.first)
    }

    /// The bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let columns: u64 = self.columns.iter().map(JaggedRows::bytes).sum();
        columns + (size_of_val(&self.ends[..]) + size_of_val(&self.rows[..])) as u64
    }
}

impl<'a> SequenceMemory<'a> {
    /// The memory of each column, then of the documents' numbers and of the places in them.
    ///
    /// # Errors
    /// `Data` if there are no such columns.
    pub fn new(fields: Vec<&'a mut [u8]>) -> Result<Self> {
        let mut columns = fields;
        let mut numbers = || {
            let bytes = columns.pop().ok_or_else(beyond)?;
            bytemuck::try_cast_slice_mut(bytes).map_err(|_| Error::data("memory is not aligned"))
        };
        let (position, document) = (numbers()?, numbers()?);
        Ok(Self { columns, document, position })
    }

    /// Begins a sequence at a token of the memory.
    #[must_use]
    pub fn begin(at: usize) -> Begun {
        Begun { at, filled: 0, documents: 0 }
    }

    /// Appends tokens of documents to a sequence, as far as there are some, and notes the rows that they are of.
    ///
    /// # Errors
    /// `Data` if documents do not fit how they are packed; `Argument` if the system does not give so much memory.
    pub fn append(
        &mut self,
        (packing, documents): (&Packing, &Documents),
        tokens: Range<u64>,
        begun: &mut Begun,
        rows: &mut Vec<u64>,
    ) -> Result<()> {
        let to_usize = |tokens: u64| usize::try_from(tokens).map_err(|_| beyond());
        let separator = usize::from(packing.separators.is_some());
        let mut number = documents.ends.partition_point(|&end| end <= tokens.start);
        let mut token = tokens.start;
        while token < tokens.end
            && let Some(&end) = documents.ends.get(number)
        {
            let before = number.checked_sub(1).map_or(documents.first, |last| documents.ends[last]);
            let from = to_usize(token.checked_sub(before).ok_or_else(beyond)?)?;
            let length = to_usize(end - before)?;
            let some = (length - from).min(to_usize(tokens.end - token)?);
            let at = begun.at + begun.filled;
            let first = i32::try_from(from).map_err(|_| beyond())?;
            self.document.get_mut(at..at + some).ok_or_else(beyond)?.fill(begun.documents);
            let places = self.position.get_mut(at..at + some).ok_or_else(beyond)?;
            for (place, within) in places.iter_mut().zip(first..) {
                *place = within;
            }
            let elements = some.min((length - separator).saturating_sub(from));
            // Each list before this one has a separator among the tokens, and none in its column.
            let element = to_usize(before - documents.first)? - number * separator + from;
            let lists = documents.columns.iter().zip(&documents.widths);
            for (index, (memory, (lists, width))) in self.columns.iter_mut().zip(lists).enumerate() {
                let source = lists.values.bytes().get(element * width..(element + elements) * width);
                let output = memory.get_mut(at * width..(at + some) * width).ok_or_else(beyond)?;
                let (elements, behind) = output.split_at_mut(elements * width);
                elements.copy_from_slice(source.ok_or_else(beyond)?);
                if !behind.is_empty() {
                    let separators = packing.separators.as_ref().and_then(|of| of.get(index));
                    let given = separators.filter(|bytes| bytes.len() == behind.len());
                    behind.copy_from_slice(given.ok_or_else(beyond)?);
                }
            }
            push(rows, documents.rows[number])?;
            token += some as u64;
            (begun.filled, begun.documents, number) = (begun.filled + some, begun.documents + 1, number + 1);
        }
        Ok(())
    }

    /// Fills a sequence of so many tokens up with padding.
    ///
    /// # Errors
    /// `Data` if it has more.
    pub fn fill_up(
        &mut self,
        begun: Begun,
        length: usize,
        widths: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let rest = begun.at + begun.filled..begun.at + length;
        self.document.get_mut(rest.clone()).ok_or_else(beyond)?.fill(-1);
        self.position.get_mut(rest.clone()).ok_or_else(beyond)?.fill(0);
        for (memory, width) in self.columns.iter_mut().zip(widths) {
            memory.get_mut(rest.start * width..rest.end * width).ok_or_else(beyond)?.fill(0);
        }
        Ok(())
    }
}

fn beyond() -> Error {
    Error::data("a document is beyond its column")
}
