//! Fuzz targets for numbers of each encoding: read all at once, and in steps of every kind.

use parquet::basic::Encoding;
use parquet::data_type::{AsBytes, BoolType, DataType, FixedLenByteArrayType, Int32Type, Int64Type};

use super::choices::{Choices, Steps};
use super::oracle::{self, OnePage};
use crate::format::encoding::number::{NumberValues, Word};
use crate::format::encoding::page_values::{Page, PageValues};
use crate::memory::pool::Memory;

/// PLAIN numbers of 2, 4 or 8 bytes.
pub fn plain(bytes: &[u8]) {
    numbers(bytes, Encoding::PLAIN);
}

/// `BYTE_STREAM_SPLIT` numbers of 2, 4 or 8 bytes.
pub fn split(bytes: &[u8]) {
    numbers(bytes, Encoding::BYTE_STREAM_SPLIT);
}

/// `DELTA_BINARY_PACKED` integers of 4 or 8 bytes.
pub fn deltas(bytes: &[u8]) {
    numbers(bytes, Encoding::DELTA_BINARY_PACKED);
}

/// Numbers of 2, 4 or 8 bytes by their dictionary indices.
pub fn indices(bytes: &[u8]) {
    numbers(bytes, Encoding::RLE_DICTIONARY);
}

/// Booleans, PLAIN or RLE.
pub fn booleans(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let encoding = [Encoding::PLAIN, Encoding::RLE][usize::from(choices.byte() % 2)];
    let (count, steps) = (choices.number(), choices.steps());
    let page = OnePage { encoding, bytes: choices.rest, count, dictionary: None };
    compare::<u8, BoolType>(&page, steps, |value| u8::from(*value));
}

fn numbers(bytes: &[u8], encoding: Encoding) {
    let mut choices = Choices::new(bytes);
    let (width, count, steps) = (choices.byte() % 3, choices.number(), choices.steps());
    let dictionary = (encoding == Encoding::RLE_DICTIONARY).then(|| {
        let (values, length) = (choices.number(), choices.number());
        (choices.bytes(length), values)
    });
    let page = OnePage { encoding, bytes: choices.rest, count, dictionary };
    match width {
        0 => compare::<u32, Int32Type>(&page, steps, |value| value.cast_unsigned()),
        1 => compare::<u64, Int64Type>(&page, steps, |value| value.cast_unsigned()),
        _ => compare::<u16, FixedLenByteArrayType>(&page, steps, |value| {
            value.as_bytes().first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
        }),
    }
}

/// Reads a page all at once, in steps, and by the oracle: all must agree.
fn compare<P: Word + PartialEq, T: DataType>(
    page: &OnePage<'_>,
    mut steps: Steps,
    bits: impl Fn(&T::T) -> P,
) {
    let mut dictionary = Memory::default();
    let opened = || {
        let mut values = NumberValues::<P>::new(size_of::<P>() >= 4);
        if let Some((bytes, count)) = page.dictionary {
            values.open_dictionary(bytes, count)?;
        }
        values.open(page.encoding, page.bytes, 0, page.count).map(|()| values)
    };
    let Ok(mut values) = opened() else { return };
    if dictionary.extend(page.dictionary.map_or(&[], |(bytes, _)| bytes)).is_err() {
        return;
    }
    let pages = Page { bytes: page.bytes, dictionary: dictionary.bytes() };
    let mut all = vec![P::default(); page.count];
    let is_whole = values.read(pages, &mut all).is_ok();
    // If plain values of one length have more bytes than they need, the oracle looks for lengths among them.
    let (length, needed) = (if size_of::<P>() == 2 { 2 } else { 0 }, page.count * size_of::<P>());
    let is_clear =
        is_whole && (length == 0 || page.encoding != Encoding::PLAIN || page.bytes.len() == needed);
    if is_clear && let Some(expected) = oracle::values::<T>(page, length) {
        let is_same = all.iter().zip(&expected).all(|(found, expected)| *found == bits(expected));
        assert!(is_same, "{} values: the oracle reads others", page.encoding);
    }
    let Ok(mut values) = opened() else { return };
    let mut done = 0;
    while done < page.count {
        let some = steps.some(page.count - done);
        let expected = &all[done..done + some];
        let step = match steps.below(3) {
            0 => values.skip(page.bytes, some),
            1 => {
                let mut found = vec![P::default(); some];
                let read = values.read(pages, &mut found);
                assert!(!is_whole || found == expected, "values from {done} on are others in steps");
                read
            }
            _ => {
                let places = steps.places(some);
                let mut found = vec![P::default(); places.len()];
                let read = values.pick(pages, &places, some, &mut found);
                let is_same =
                    found.iter().zip(&places).all(|(found, place)| *found == expected[*place as usize]);
                assert!(!is_whole || is_same, "values from {done} on are others when picked");
                read
            }
        };
        assert!(!is_whole || step.is_ok(), "values that are there are refused in steps: {step:?}");
        if step.is_err() {
            return;
        }
        done += some;
    }
}
