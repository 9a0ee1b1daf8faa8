//! The Arrow schema in a footer. It says what Parquet's own schema does not: that all lists of a column have
//! one length, and that integers are durations.
//!
//! It is base64 text in the footer's key-value metadata: an encapsulated Arrow message, whose tables are in
//! `FlatBuffers`. Only names, lengths, units and children are read, and no more of them than a schema may
//! have.
//!
//! Sources: <https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>,
//! <https://github.com/apache/arrow/blob/main/format/Schema.fbs>,
//! <https://flatbuffers.dev/internals/>

use std::collections::HashMap;

use crate::error::{Error, Result};

/// The key of the text in a footer's metadata.
pub const KEY: &str = "ARROW:schema";

/// The deepest nesting of fields, and the most of them: as many as a footer's own schema may have.
const MAX_DEPTH: usize = 100;
const MAX_FIELDS: usize = 1 << 18;

/// The continuation marker before a message, since version 0.15.
const CONTINUED: u32 = u32::MAX;

/// The numbers of fields in their tables, and of the types that are looked for.
const MESSAGE_KIND: usize = 1;
const MESSAGE_HEADER: usize = 2;
const SCHEMA: u8 = 1;
const SCHEMA_FIELDS: usize = 1;
const FIELD_NAME: usize = 0;
const FIELD_KIND: usize = 2;
const FIELD_TYPE: usize = 3;
const FIELD_CHILDREN: usize = 5;
const FIXED_SIZE_LIST: u8 = 16;
const LIST_SIZE: usize = 0;
const DURATION: u8 = 18;
const DURATION_UNIT: usize = 0;
const UNITS: [&str; 4] = ["s", "ms", "us", "ns"];
const DEFAULT_UNIT: u8 = 1;

/// The fields of a schema, or the children of a field.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArrowSchema {
    fields: Vec<ArrowSchemaField>,
    by_name: HashMap<String, usize>,
}

/// A field of an Arrow schema.
#[derive(Debug, PartialEq, Eq)]
pub struct ArrowSchemaField {
    /// The length of its lists, if it is a fixed-size list: at least one.
    pub size: Option<usize>,
    /// The unit, if it is a duration.
    pub unit: Option<&'static str>,
    children: ArrowSchema,
}

impl ArrowSchema {
    /// The fields of the schema in a footer's text.
    ///
    /// # Errors
    /// `Data` if the text is damaged.
    pub fn parse(text: &str) -> Result<Self> {
        let bytes = bytes_of(text)?;
        let word = |at: usize| {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word))
        };
        let start = if word(0) == Some(CONTINUED) { 8 } else { 4 };
        let buffer = Buffer { bytes: bytes.get(start..).ok_or_else(damaged)? };
        let message = buffer.indirect(0)?;
        if buffer.byte(message, MESSAGE_KIND)? != SCHEMA {
            return Err(damaged());
        }
        let schema = buffer.table(message, MESSAGE_HEADER)?.ok_or_else(damaged)?;
        let mut left = MAX_FIELDS;
        Self::read(buffer, buffer.table(schema, SCHEMA_FIELDS)?, MAX_DEPTH, &mut left)
    }

    /// The fields of a vector; empty without one. Parts may be shared, so `left` limits how many more are
    /// read.
    fn read(buffer: Buffer<'_>, vector: Option<usize>, depth: usize, left: &mut usize) -> Result<Self> {
        let Some(vector) = vector else { return Ok(Self::default()) };
        let count = buffer.word(vector)? as usize;
        *left = left.checked_sub(count).ok_or_else(damaged)?;
        let depth = depth.checked_sub(1).ok_or_else(damaged)?;
        let mut found = Self::default();
        for number in 0..count {
            let field = buffer.indirect(vector + 4 + 4 * number)?;
            let (mut size, mut unit) = (None, None);
            match buffer.byte(field, FIELD_KIND)? {
                FIXED_SIZE_LIST => {
                    let list = buffer.table(field, FIELD_TYPE)?.ok_or_else(damaged)?;
                    size = usize::try_from(buffer.integer(list, LIST_SIZE)?).ok().filter(|&size| size > 0);
                }
                DURATION => {
                    let duration = buffer.table(field, FIELD_TYPE)?.ok_or_else(damaged)?;
                    let stated = buffer.field(duration, DURATION_UNIT)?.map(|at| buffer.chunk::<1>(at));
                    let number = stated.transpose()?.map_or(DEFAULT_UNIT, |[number]| number);
                    unit = UNITS.get(usize::from(number)).copied();
                }
                _ => {}
            }
            let name =
                buffer.table(field, FIELD_NAME)?.map_or(Ok(String::new()), |name| buffer.text(name))?;
            let children = Self::read(buffer, buffer.table(field, FIELD_CHILDREN)?, depth, left)?;
            // If two fields have one name, the last one is kept: neither column can be selected.
            found.by_name.insert(name, number);
            found.fields.push(ArrowSchemaField { size, unit, children });
        }
        Ok(found)
    }

    /// The field of this name.
    pub fn get(&self, name: &str) -> Option<&ArrowSchemaField> {
        self.fields.get(*self.by_name.get(name)?)
    }
}

impl ArrowSchemaField {
    /// Its children.
    pub fn members(&self) -> &ArrowSchema {
        &self.children
    }

    /// The element of its lists, or the entry of its maps.
    pub fn element(&self) -> Option<&Self> {
        self.member(0)
    }

    /// One of its children.
    pub fn member(&self, place: usize) -> Option<&Self> {
        self.children.fields.get(place)
    }
}

/// The bytes of a base64 text.
fn bytes_of(text: &str) -> Result<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for digits in digits.chunks(4) {
        let mut word = 0_u32;
        for &digit in digits {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(damaged()),
            };
            word = word << 6 | u32::from(value);
        }
        // Missing digits are zeros; the byte that they would complete is left out.
        let [_, whole @ ..] = (word << (6 * (4 - digits.len()))).to_be_bytes();
        bytes.extend_from_slice(&whole[..digits.len() * 6 / 8]);
    }
    Ok(bytes)
}

/// `FlatBuffers` tables in bytes. Each begins with the distance back to a table of its fields' offsets.
#[derive(Debug, Clone, Copy)]
struct Buffer<'a> {
    bytes: &'a [u8],
}

impl Buffer<'_> {
    fn chunk<const LENGTH: usize>(self, at: usize) -> Result<[u8; LENGTH]> {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(damaged)
    }

    fn word(self, at: usize) -> Result<u32> {
        self.chunk(at).map(u32::from_le_bytes)
    }

    /// Where the offset at a place points to, which is behind it.
    fn indirect(self, at: usize) -> Result<usize> {
        let target = at.checked_add(self.word(at)? as usize);
        target.filter(|&target| target < self.bytes.len()).ok_or_else(damaged)
    }

    /// Where a field of a table lies; `None` if it has its default.
    fn field(self, table: usize, number: usize) -> Result<Option<usize>> {
        let back = i64::from(i32::from_le_bytes(self.chunk(table)?));
        let offsets = i64::try_from(table).ok().and_then(|table| usize::try_from(table - back).ok());
        let offsets = offsets.ok_or_else(damaged)?;
        let length = usize::from(u16::from_le_bytes(self.chunk(offsets)?));
        let entry = 4 + 2 * number;
        if entry + 2 > length {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(self.chunk(offsets + entry)?));
        Ok(if offset == 0 { None } else { Some(table + offset) })
    }

    fn byte(self, table: usize, number: usize) -> Result<u8> {
        self.field(table, number)?.map_or(Ok(0), |at| Ok(u8::from_le_bytes(self.chunk(at)?)))
    }

    fn integer(self, table: usize, number: usize) -> Result<i32> {
        self.field(table, number)?.map_or(Ok(0), |at| Ok(i32::from_le_bytes(self.chunk(at)?)))
    }

    /// The table, vector or string that a field points to.
    fn table(self, table: usize, number: usize) -> Result<Option<usize>> {
        self.field(table, number)?.map(|at| self.indirect(at)).transpose()
    }

    fn text(self, at: usize) -> Result<String> {
        let (first, length) = (at + 4, self.word(at)? as usize);
        let bytes = self.bytes.get(first..first.saturating_add(length)).ok_or_else(damaged)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| damaged())
    }
}

fn damaged() -> Error {
    Error::data(format!("the footer's {KEY} is damaged"))
}
