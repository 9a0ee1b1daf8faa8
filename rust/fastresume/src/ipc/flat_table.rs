//! Tables of flatbuffers, in which messages describe themselves. Nothing in them is trusted.
//!
//! Source: <https://flatbuffers.dev/internals/>

use crate::error::{Error, Result};

/// A table: which fields it has, and where, stands in front of it.
#[derive(Debug, Clone, Copy)]
pub struct FlatTable<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn damaged() -> Error {
    Error::data("the metadata of a message are damaged")
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(damaged)
}

/// Where what lies at a place points to.
fn pointed(bytes: &[u8], at: usize) -> Result<usize> {
    let step = usize::try_from(u32::from_le_bytes(word(bytes, at)?)).map_err(|_| damaged())?;
    at.checked_add(step).ok_or_else(damaged)
}

impl<'a> FlatTable<'a> {
    /// The table that the bytes hold, with all that is below it.
    ///
    /// # Errors
    /// `Data` if they end before it.
    pub fn root(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { bytes, at: pointed(bytes, 0)? })
    }

    /// Where a field lies; none if the table leaves it out.
    fn field(self, number: usize) -> Result<Option<usize>> {
        let back = i64::from(i32::from_le_bytes(word(self.bytes, self.at)?));
        let at = i64::try_from(self.at).map_err(|_| damaged())?;
        let fields = usize::try_from(at - back).map_err(|_| damaged())?;
        let slot = 4 + 2 * number;
        if slot + 2 > usize::from(u16::from_le_bytes(word(self.bytes, fields)?)) {
            return Ok(None);
        }
        let place = usize::from(u16::from_le_bytes(word(self.bytes, fields + slot)?));
        Ok((place > 0).then_some(self.at + place))
    }

    /// A number of one byte; 0 if it is left out.
    ///
    /// # Errors
    /// `Data` if the bytes end before it; so for all of the following.
    pub fn byte(self, number: usize) -> Result<u8> {
        Ok(self.field(number)?.map_or(Ok([0]), |at| word(self.bytes, at))?[0])
    }

    /// A number of 16 bits; 0 if it is left out.
    ///
    /// # Errors
    /// As for `byte`.
    pub fn short(self, number: usize) -> Result<i16> {
        self.field(number)?.map_or(Ok(0), |at| word(self.bytes, at).map(i16::from_le_bytes))
    }

    /// A number of 64 bits; 0 if it is left out.
    ///
    /// # Errors
    /// As for `byte`.
    pub fn long(self, number: usize) -> Result<i64> {
        self.field(number)?.map_or(Ok(0), |at| word(self.bytes, at).map(i64::from_le_bytes))
    }

    /// A table below it; none if it is left out.
    ///
    /// # Errors
    /// As for `byte`.
    pub fn table(self, number: usize) -> Result<Option<Self>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        Ok(Some(Self { bytes: self.bytes, at: pointed(self.bytes, at)? }))
    }

    /// The bytes of a list of values of one width; none if it is left out.
    ///
    /// # Errors
    /// As for `byte`.
    pub fn list(self, number: usize, width: usize) -> Result<&'a [u8]> {
        let Some(at) = self.field(number)? else { return Ok(&[]) };
        let at = pointed(self.bytes, at)?;
        let count = usize::try_from(u32::from_le_bytes(word(self.bytes, at)?)).map_err(|_| damaged())?;
        let length = count.checked_mul(width).ok_or_else(damaged)?;
        self.bytes.get(at + 4..).and_then(|rest| rest.get(..length)).ok_or_else(damaged)
    }

    /// The tables of a list.
    ///
    /// # Errors
    /// As for `byte`.
    pub fn tables(self, number: usize) -> Result<Vec<Self>> {
        let Some(at) = self.field(number)? else { return Ok(Vec::new()) };
        let first = pointed(self.bytes, at)? + 4;
        let count = self.list(number, 4)?.len() / 4;
        let each = (0..count)
            .map(|place| Ok(Self { bytes: self.bytes, at: pointed(self.bytes, first + 4 * place)? }));
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a byte and a number of 64 bits.
    fn table() -> Vec<u8> {
        let mut bytes = vec![16, 0, 0, 0];
        bytes.extend([10, 0, 16, 0, 0, 0, 12, 0, 4, 0, 0, 0]);
        // The table: back to its fields, a number, a byte.
        bytes.extend(12_i32.to_le_bytes());
        bytes.extend((-5_i64).to_le_bytes());
        bytes.push(7);
        bytes
    }

    #[test]
    fn fields_are_found_and_others_are_zero_and_bytes_that_end_are_errors() {
        let bytes = table();
        let root = FlatTable::root(&bytes).unwrap();
        assert_eq!((root.byte(1).unwrap(), root.long(2).unwrap()), (7, -5));
        assert_eq!(
            (root.byte(3).unwrap(), root.short(9).unwrap(), root.list(5, 4).unwrap()),
            (0, 0, &[][..])
        );
        for end in 0..bytes.len() {
            let cut = &bytes[..end];
            let read = |root: FlatTable<'_>| Ok((root.byte(1)?, root.long(2)?, root.tables(0)?.len()));
            let found = FlatTable::root(cut).and_then(read);
            assert!(found.is_err(), "{end}");
        }
    }
}
