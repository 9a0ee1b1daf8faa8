//! Fuzz targets for byte arrays (strings) of each encoding: read all at once, and in steps.

use parquet::basic::Encoding;
use parquet::data_type::ByteArrayType;

use super::choices::{Choices, Steps};
use super::oracle::{self, OnePage};
use crate::decode::flat::byte_array::TextValues;
use crate::error::Result;
use crate::format::encoding::page_values::PageValues;

/// The most strings: so few that strings which repeat each other take some megabytes at most.
const MOST: usize = 1200;

/// PLAIN strings.
pub fn texts(bytes: &[u8]) {
    read(bytes, |_| Encoding::PLAIN);
}

/// `DELTA_LENGTH_BYTE_ARRAY` or `DELTA_BYTE_ARRAY` strings.
pub fn text_deltas(bytes: &[u8]) {
    read(bytes, |kind| {
        [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY][usize::from(kind % 2)]
    });
}

/// Strings by their dictionary indices.
pub fn text_indices(bytes: &[u8]) {
    read(bytes, |_| Encoding::RLE_DICTIONARY);
}

fn read(bytes: &[u8], encoding: impl Fn(u8) -> Encoding) {
    let mut choices = Choices::new(bytes);
    let encoding = encoding(choices.byte());
    let (count, steps) = (choices.number() % MOST, choices.steps());
    let dictionary = (encoding == Encoding::RLE_DICTIONARY).then(|| {
        let (values, length) = (choices.number(), choices.number());
        (choices.bytes(length), values)
    });
    compare(&OnePage { encoding, bytes: choices.rest, count, dictionary }, steps);
}

fn opened(page: &OnePage<'_>) -> Result<TextValues> {
    let mut values = TextValues::default();
    if let Some((bytes, count)) = page.dictionary {
        values.open_dictionary(bytes, count)?;
    }
    values.open(page.encoding, page.bytes, 0, page.count)?;
    Ok(values)
}

/// Reads a page all at once, in steps, and by the oracle: all must agree.
fn compare(page: &OnePage<'_>, mut steps: Steps) {
    let Ok(mut values) = opened(page) else { return };
    let mut all = Vec::new();
    let is_whole = values.each(page.bytes, page.count, |text| all.push(text.to_vec())).is_ok();
    assert!(!is_whole || all.len() == page.count);
    if is_whole && let Some(expected) = oracle::values::<ByteArrayType>(page, 0) {
        let is_same = all.iter().zip(&expected).all(|(found, expected)| found == expected.data());
        assert!(is_same, "{} texts: the oracle reads others", page.encoding);
    }
    let Ok(mut values) = opened(page) else { return };
    let mut done = 0;
    while done < page.count {
        let some = steps.some(page.count - done);
        let mut expected = all[done.min(all.len())..].iter();
        let step = if steps.below(2) == 0 {
            values.skip(page.bytes, some)
        } else {
            values.each(page.bytes, some, |text| {
                let expected = expected.next().map(Vec::as_slice);
                assert!(!is_whole || expected == Some(text), "texts from {done} on are others in steps");
            })
        };
        assert!(!is_whole || step.is_ok(), "texts that are there are refused in steps: {step:?}");
        if step.is_err() {
            return;
        }
        done += some;
    }
}
