//! The types of arrays, as the C data interface names them.
//!
//! Source: <https://arrow.apache.org/docs/format/CDataInterface.html>

use crate::error::{Error, Result};

/// The deepest type that is taken.
pub const MAX_DEPTH: usize = 60;

/// A column, or what is below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrowField {
    /// Its name.
    pub name: String,
    /// What its arrays hold.
    pub form: ArrowForm,
    /// Whether values may be null.
    pub is_nullable: bool,
    /// What is below it.
    pub children: Vec<ArrowField>,
    /// The type of the dictionary's values, if arrays hold indices to one.
    pub dictionary: Option<Box<ArrowField>>,
}

/// What the buffers of an array hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrowForm {
    /// Nothing: all values are null.
    Null,
    /// Bits.
    Bool,
    /// Values of so many bytes.
    Fixed(usize, Meaning),
    /// Offsets, and bytes behind one another; 64 bits an offset if they are wide.
    Bytes {
        /// Whether offsets have 64 bits.
        is_wide: bool,
    },
    /// Short values, or where in other buffers longer ones are.
    Views,
    /// Offsets into a child.
    List {
        /// Whether offsets have 64 bits.
        is_wide: bool,
    },
    /// The same with lengths, in any order.
    ListViews {
        /// Whether offsets and lengths have 64 bits.
        is_wide: bool,
    },
    /// So many values of a child for each.
    FixedList(usize),
    /// Children side by side.
    Struct,
    /// Lists of keys and values.
    Map,
    /// Where runs end, and the value of each.
    Runs,
}

/// What values of fixed bytes stand for, as far as a file of the same rows would hold other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// These very bytes.
    Same,
    /// Signed integers, or others, which files hold in 4 bytes if they are narrower.
    Integer {
        /// Whether they have a sign.
        is_signed: bool,
    },
    /// Milliseconds, of which there are whole days.
    DayMillis,
    /// Seconds, which files tell in milliseconds.
    Seconds,
    /// Decimals, the lowest byte first.
    Decimal,
}

impl ArrowForm {
    /// That of a format string.
    ///
    /// # Errors
    /// `Data` if nothing here delivers it.
    pub fn parse(format: &str) -> Result<Self> {
        let integer = |bytes, is_signed| Self::Fixed(bytes, Meaning::Integer { is_signed });
        let same = |bytes| Self::Fixed(bytes, Meaning::Same);
        let number = |text: &str| text.parse::<usize>().ok();
        let unknown = || {
            Error::refused(format!(
                "the Arrow type '{format}' can't be delivered: leave the column out, or cast it"
            ))
        };
        Ok(match format {
            "n" => Self::Null,
            "b" => Self::Bool,
            "c" => integer(1, true),
            "C" => integer(1, false),
            "s" => integer(2, true),
            "S" => integer(2, false),
            "e" => same(2),
            "i" | "I" | "f" | "tdD" | "ttm" => same(4),
            "l" | "L" | "g" | "ttu" | "ttn" => same(8),
            "tts" => Self::Fixed(4, Meaning::Seconds),
            "tdm" => Self::Fixed(8, Meaning::DayMillis),
            "u" | "z" => Self::Bytes { is_wide: false },
            "U" | "Z" => Self::Bytes { is_wide: true },
            "vu" | "vz" => Self::Views,
            "+l" => Self::List { is_wide: false },
            "+L" => Self::List { is_wide: true },
            "+vl" => Self::ListViews { is_wide: false },
            "+vL" => Self::ListViews { is_wide: true },
            "+s" => Self::Struct,
            "+m" => Self::Map,
            "+r" => Self::Runs,
            _ => {
                if format.starts_with("tss") {
                    return Ok(Self::Fixed(8, Meaning::Seconds));
                }
                if format.starts_with("ts") || format.starts_with("tD") {
                    return Ok(same(8));
                }
                if let Some(size) = format.strip_prefix("+w:") {
                    return number(size).map(Self::FixedList).ok_or_else(unknown);
                }
                if let Some(size) = format.strip_prefix("w:") {
                    return number(size).map(same).ok_or_else(unknown);
                }
                let Some(decimal) = format.strip_prefix("d:") else { return Err(unknown()) };
                let bits = decimal.split(',').nth(2).map_or(Some(128), number).ok_or_else(unknown)?;
                if ![32, 64, 128, 256].contains(&bits) {
                    return Err(unknown());
                }
                Self::Fixed(bits / 8, Meaning::Decimal)
            }
        })
    }
}

impl ArrowField {
    /// The values of arrays whose indices or runs stand for them.
    #[must_use]
    pub fn plain(&self) -> &Self {
        match (&self.dictionary, self.form) {
            (Some(values), _) => values.plain(),
            (None, ArrowForm::Runs) => self.children.get(1).map_or(self, Self::plain),
            _ => self,
        }
    }

    /// The paths of the leaves below fields, by the numbers of children, in their order.
    #[must_use]
    pub fn leaves(fields: &[Self]) -> Vec<Vec<usize>> {
        let mut found = Vec::new();
        for (number, field) in fields.iter().enumerate() {
            field.add_leaves(&mut vec![number], &mut found);
        }
        found
    }

    fn add_leaves(&self, path: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
        let plain = self.plain();
        if plain.children.is_empty() {
            found.push(path.clone());
            return;
        }
        for (number, child) in plain.children.iter().enumerate() {
            path.push(number);
            child.add_leaves(path, found);
            path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_parsed_and_others_are_refused_by_name() {
        assert_eq!(ArrowForm::parse("tss:UTC").unwrap(), ArrowForm::Fixed(8, Meaning::Seconds));
        assert_eq!(ArrowForm::parse("d:19,2").unwrap(), ArrowForm::Fixed(16, Meaning::Decimal));
        assert_eq!(ArrowForm::parse("d:5,2,32").unwrap(), ArrowForm::Fixed(4, Meaning::Decimal));
        assert_eq!(ArrowForm::parse("+w:7").unwrap(), ArrowForm::FixedList(7));
        for format in ["tiM", "+ud:0,1", "w:x", "d:5,2,7", "", "q"] {
            let message = ArrowForm::parse(format).unwrap_err().to_string();
            assert!(message.contains(&format!("'{format}'")), "{message}");
        }
    }
}
