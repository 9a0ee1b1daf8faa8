//! Rows of lists between two anchors of the index, of which sequences take tokens.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::packing::PackedRows;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::memory::vectors::push;
use crate::units::sequence_table::Anchor;

/// Rows of one row group between two anchors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSpan {
    /// The file, and the tokens of it that they have.
    pub file: usize,
    pub tokens: Range<u64>,
    /// The pass of its source: each token stands in one sequence of it.
    pub pass: u64,
    /// The ordinals of the rows.
    pub ordinals: Range<u64>,
    /// Which of the tokens sequences take, ascending.
    pub taken: Vec<Range<u64>>,
}

/// The row group of a segment, its spans, and how many tokens they have.
pub type ListCut = (usize, Vec<ListSpan>, u64);

/// Cuts tokens, which ascend, into spans of one row group.
pub struct SpanCutter<'a> {
    of: &'a PackedRows,
    pass: u64,
    manifest: &'a Arc<Manifest>,
    most_tokens: u64,
    group: Option<usize>,
    /// The tokens of all spans.
    tokens: u64,
    spans: Vec<ListSpan>,
}

impl<'a> SpanCutter<'a> {
    /// Nothing yet of this pass; about `most_tokens` are decoded in one go.
    #[must_use]
    pub fn new((of, pass): (&'a PackedRows, u64), manifest: &'a Arc<Manifest>, most_tokens: u64) -> Self {
        Self { of, pass, manifest, most_tokens, group: None, tokens: 0, spans: Vec::new() }
    }

    /// Whether there is no span.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The row group, its spans, and how many tokens they have; nothing is left. `None` if there is no span.
    pub fn taken(&mut self) -> Option<ListCut> {
        let group = self.group.take()?;
        Some((group, std::mem::take(&mut self.spans), std::mem::take(&mut self.tokens)))
    }

    /// Cuts sequences, which ascend, each with a batch that needs it: the first batch that needs a segment, and what `taken`
    /// gives of it.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if the index has tokens of rows that are not there.
    pub fn cut(mut self, sequences: &[(u64, u64)]) -> Result<Vec<(u64, ListCut)>> {
        let (mut found, mut first_batch) = (Vec::new(), u64::MAX);
        for &(sequence, batch) in sequences {
            let (file, mut tokens) = self.of.table.tokens(&(sequence..sequence + 1));
            loop {
                tokens.start = self.add(file, tokens.clone())?;
                if tokens.is_empty() {
                    break;
                }
                let Some(cut) = self.taken() else { return Err(no_rows()) };
                // What the segment has of it, this batch needs, too.
                push(&mut found, (first_batch.min(batch), cut))?;
                first_batch = u64::MAX;
            }
            first_batch = first_batch.min(batch);
        }
        if let Some(cut) = self.taken() {
            push(&mut found, (first_batch, cut))?;
        }
        Ok(found)
    }

    /// Adds tokens of a file, as far as they are of this row group and there is room. Returns the token behind the last one
    /// that was added.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn add(&mut self, file: usize, tokens: Range<u64>) -> Result<u64> {
        let mut token = tokens.start;
        while token < tokens.end {
            if let Some(last) = self.spans.last_mut()
                && last.file == file
                && last.tokens.contains(&token)
            {
                let upto = tokens.end.min(last.tokens.end);
                match last.taken.last_mut() {
                    Some(before) if before.end == token => before.end = upto,
                    _ => push(&mut last.taken, token..upto)?,
                }
                token = upto;
            } else if !self.open(file, token, tokens.end)? {
                break;
            }
        }
        Ok(token)
    }

    /// Adds the rows between the anchors around a token, or more of them up to that of another one; whether they are of this row
    /// group, and there was room.
    fn open(&mut self, file: usize, token: u64, end: u64) -> Result<bool> {
        let PackedRows { table, rows, .. } = self.of;
        if self.tokens >= self.most_tokens && !self.spans.is_empty() {
            return Ok(false);
        }
        let number = table.anchor_before(file, token);
        let before = table.anchor_of(file, number);
        let Some(run) = rows.rows(before.ordinal..before.ordinal + 1).next() else { return Ok(false) };
        let group = self.manifest.group_of(run.start);
        if self.group.is_some_and(|own| own != group) {
            return Ok(false);
        }
        self.group = Some(group);
        let most = before.tokens.saturating_add(self.most_tokens - self.tokens);
        let end_ordinal = rows.group_starts().get(group + 1).copied().unwrap_or(u64::MAX);
        let Anchor { ordinal, tokens } = table.anchor_behind(file, number, end.min(most), end_ordinal);
        // Of a table of other files, the lists do not meet the anchor.
        let (ordinal, behind) = (ordinal.max(before.ordinal + 1), tokens.max(token + 1));
        self.tokens += behind - before.tokens;
        match self.spans.last_mut() {
            Some(last) if last.file == file && last.ordinals.end == before.ordinal => {
                (last.ordinals.end, last.tokens.end) = (ordinal, behind);
            }
            _ => {
                let (tokens, ordinals) = (before.tokens..behind, before.ordinal..ordinal);
                push(
                    &mut self.spans,
                    ListSpan { file, tokens, pass: self.pass, ordinals, taken: Vec::new() },
                )?;
            }
        }
        Ok(true)
    }
}

/// Why sequences have tokens of no rows.
pub fn no_rows() -> Error {
    Error::data("the index of units is damaged: it has tokens of rows that are not there")
}
