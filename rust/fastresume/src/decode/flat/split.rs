//! Decodes flat columns of texts that hold several values each to lists: of texts, of buckets or of codes.

use std::sync::Arc;

use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::decode::flat::byte_array::ByteArrayDecoder;
use crate::decode::flat::byte_array_codes::Numbering;
use crate::error::Result;
use crate::memory::vectors::{push, room_for};

/// So many texts are held at a time, besides the lists that are made of them.
const TEXTS_AT_A_TIME: usize = 1024;

/// What becomes of each value between separators.
pub enum Pieces {
    /// It is a text.
    Texts,
    /// A number stands for it.
    Numbers(Numbering),
    /// A mark stands for it: it is no null.
    Marks,
}

/// A column of texts, delivered as lists of what stands between separators.
pub struct SplitDecoder<'a> {
    texts: ByteArrayDecoder<'a>,
    separator: Arc<[u8]>,
    pieces: Pieces,
    some: JaggedRows,
}

impl<'a> SplitDecoder<'a> {
    pub fn new(texts: ByteArrayDecoder<'a>, separator: Arc<[u8]>, pieces: Pieces) -> Self {
        Self { texts, separator, pieces, some: JaggedRows::default() }
    }

    /// Appends what stands in the texts that were read.
    fn split(&self, output: &mut JaggedRows) -> Result<()> {
        let texts = &self.some;
        let has_inner = matches!(self.pieces, Pieces::Texts);
        output.with_inner(usize::from(has_inner))?;
        let JaggedRows { values, ends, valid, inner, .. } = output;
        room_for(valid, texts.valid.len())?;
        valid.extend_from_slice(&texts.valid);
        room_for(ends, texts.ends.len())?;
        for row in 0..texts.ends.len() {
            let text = &texts.values.bytes()[texts.bytes_of(row)];
            for piece in pieces(text, &self.separator) {
                match &self.pieces {
                    Pieces::Texts => values.extend(piece)?,
                    Pieces::Numbers(numbering) => values.extend(&numbering.of(piece)?.to_le_bytes())?,
                    Pieces::Marks => values.extend(&[1])?,
                }
                if let Some(inner) = inner.first_mut().filter(|_| has_inner) {
                    inner.values.extend(&(piece.len() as u64).to_le_bytes())?;
                }
            }
            ends.push(values.len());
            if let Some(inner) = inner.first_mut().filter(|_| has_inner) {
                push(&mut inner.ends, inner.values.len())?;
            }
        }
        Ok(())
    }
}

impl JaggedDecoder for SplitDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.texts.skip(rows)
    }

    fn read(&mut self, mut rows: usize, output: &mut JaggedRows) -> Result<()> {
        while rows > 0 {
            let some = rows.min(TEXTS_AT_A_TIME);
            self.some.clear();
            self.texts.read(some, &mut self.some)?;
            self.split(output)?;
            rows -= some;
        }
        Ok(())
    }
}

/// What stands between separators in a text; nothing in an empty one.
pub fn pieces<'t>(text: &'t [u8], separator: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
    let mut rest = (!text.is_empty()).then_some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = place(text, separator) else {
            return rest.take();
        };
        rest = Some(&text[end + separator.len()..]);
        Some(&text[..end])
    })
}

/// Where a separator begins.
fn place(text: &[u8], separator: &[u8]) -> Option<usize> {
    match separator {
        [] => None,
        [byte] => text.iter().position(|one| one == byte),
        _ => text.windows(separator.len()).position(|part| part == separator),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_holds_nothing_and_an_empty_piece_is_a_value() {
        let parts = |text: &str, separator: &str| -> Vec<String> {
            let each = pieces(text.as_bytes(), separator.as_bytes());
            each.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
        };
        assert_eq!(parts("", ","), Vec::<String>::new());
        assert_eq!(parts(",", ","), ["", ""]);
        assert_eq!(parts("a,,b", ","), ["a", "", "b"]);
        assert_eq!(parts("a", ","), ["a"]);
        assert_eq!(parts("a::b:", "::"), ["a", "b:"]);
        assert_eq!(parts("a:::b", "::"), ["a", ":b"]);
    }
}
