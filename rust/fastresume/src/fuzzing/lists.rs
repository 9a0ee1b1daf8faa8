//! Column chunks of lists: all of their pages, read at once and in steps.

use super::chunks::{ChunkChoices, Shared, jagged_in_steps};
use crate::column::{JaggedDecoder, JaggedRows, Nulls};
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::listpages::{ListLevels, ListPages};
use crate::lists::ListDecoder;
use crate::numbers::Numbers;
use crate::page::Buffers;
use crate::textlists::TextListDecoder;
use crate::types::Dtype;

/// Lists of numbers and of texts, lists of lists of any length, and of one, with nulls or without.
pub fn list_chunks(bytes: &[u8]) {
    let value_bytes = |kind: u8| (kind % 4 != 1).then_some(8);
    let choices = ChunkChoices::new(bytes, value_bytes, false);
    let shared = Shared::new();
    let mut all = JaggedRows::default();
    let mut buffers = Buffers::default();
    let Ok(mut decoder) = decoder(&choices, &shared, &mut buffers) else { return };
    let is_whole = decoder.read(choices.rows(), &mut all).is_ok();
    drop(decoder);
    if is_whole {
        assert_eq!((all.ends.len(), all.valid.len()), (choices.rows(), choices.rows()));
        assert!(all.ends.is_sorted() && all.ends.last().is_none_or(|&end| end == all.values.len()));
    }
    // An index that lies leads elsewhere; so do pages that are passed by their headers, which state other rows.
    let is_whole = is_whole && choices.chunk.index.is_none();
    for shared in [&shared, &Shared::new()] {
        let mut buffers = Buffers::default();
        let Ok(mut decoder) = self::decoder(&choices, shared, &mut buffers) else { return };
        jagged_in_steps(decoder.as_mut(), &choices, &all, is_whole);
    }
}

fn decoder<'a>(
    choices: &ChunkChoices,
    shared: &Shared,
    buffers: &'a mut Buffers,
) -> Result<Box<dyn JaggedDecoder + 'a>> {
    let pages = choices.pages(shared, buffers)?;
    let null = u8::from(choices.is_optional);
    let (is_nested, grid) = (choices.kind % 4 == 2, Grid::new(&[2, 3]).filter(|_| choices.kind % 4 == 3));
    // A level for each list, which may be null or empty, and one for an element that may be null.
    let (empty, lists) = (null, 1 + u8::from(is_nested || grid.is_some()));
    let element = lists * (1 + null);
    let levels = ListLevels { empty, element, value: element + null, is_nested };
    let pages = ListPages::new(pages, levels, grid);
    if choices.kind % 4 == 1 {
        return Ok(Box::new(TextListDecoder::new(pages, Nulls::Masked)));
    }
    let delivered = [Dtype::Int64, Dtype::Float64][usize::from(choices.kind / 4 % 2)];
    let delivery =
        Delivery::new(Dtype::Int64, delivered).ok_or_else(|| Error::data("there is no such cast"))?;
    let numbers: Numbers<u64, u64> = Numbers::new(delivery);
    Ok(Box::new(ListDecoder::new(pages, Nulls::Masked, numbers)))
}
