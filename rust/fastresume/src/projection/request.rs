//! What the user asked of columns, before any file is looked at.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::projection::fill::Fill;
use crate::projection::padding::End;
use crate::projection::rule_value::{OfRule, RuleValue, Several};
use crate::schema::buckets::Buckets;
use crate::schema::columns::Dtype;

/// What is to become of nulls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Policy {
    /// They are errors.
    #[default]
    Refuse,
    /// A mask tells them apart.
    Mask,
    /// They become this number; texts and pieces of bytes become empty, whatever the number.
    Fill(Fill),
}

/// "error", "mask", or what stands for them; "" for an empty text.
impl OfRule for Policy {
    fn of_rule(value: RuleValue) -> Result<Self> {
        match value {
            RuleValue::Text(word) if word == "error" => Ok(Self::Refuse),
            RuleValue::Text(word) if word == "mask" => Ok(Self::Mask),
            value => value.read().map(Self::Fill),
        }
    }
}

/// What becomes of decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decimals {
    /// Integers of 64 bits in units of 10^-scale; one that does not fit is an error.
    Integers,
    /// The nearest floats of 64 bits.
    Floats,
    /// The bytes that the file holds, the highest first.
    Bytes,
}

impl OfRule for Decimals {
    fn of_rule(value: RuleValue) -> Result<Self> {
        match value.read::<String>()?.as_str() {
            "int64" => Ok(Self::Integers),
            "float64" => Ok(Self::Floats),
            "bytes" => Ok(Self::Bytes),
            other => Err(Error::Argument(format!("decimals become nothing called '{other}'"))),
        }
    }
}

/// How rows of any length are made of so many elements each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pad {
    /// Elements of each row.
    pub size: usize,
    /// What stands where a row has none.
    pub value: Fill,
    /// Where that is.
    pub at: End,
    /// Which end is kept of a row that has more; without one, such a row is an error.
    pub kept: Option<End>,
}

/// Numbers for texts or bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Codes {
    /// The values whose places are their codes; those of all files, in the order of their bytes, if none are named.
    pub values: Option<Arc<Vec<Vec<u8>>>>,
    /// The code of all values that are not named; without one, such a value is an error.
    pub unknown: Option<u64>,
}

/// What becomes of a column.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule, which is given or not")]
pub struct ColumnRules {
    /// What becomes of nulls; what the request says of all, if nothing is said here.
    pub nulls: Option<Policy>,
    /// What becomes of decimals; integers where the file says that all fit, if nothing is said.
    pub decimal: Option<Decimals>,
    /// Whether values of one length are the bytes that the file holds.
    pub is_raw: bool,
    /// What stands between the values that texts hold, which become lists.
    pub split: Option<Arc<[u8]>>,
    /// The least and the greatest number, before a cast: others become these.
    pub clip: Option<[Option<Fill>; 2]>,
    /// The type that numbers are cast to.
    pub cast: Option<Dtype>,
    /// Whether integers that a type of floats can't hold become its nearest float.
    pub is_rounding: bool,
    /// The buckets that texts, bytes and integers are put into.
    pub hash: Option<Buckets>,
    /// The codes of texts and bytes.
    pub codes: Option<Codes>,
    /// To which length lists and texts are filled up.
    pub pad: Option<Pad>,
    /// How many elements lists have, and those in them, `None` of outer ones that differ; none where all may differ.
    /// What a file says of its lists is believed if nothing is said here.
    pub fixed: Option<Vec<Option<usize>>>,
    /// Whether files may lack it.
    pub is_optional: bool,
    /// Whether its values stand in the paths of the files.
    pub is_of_path: bool,
}

impl ColumnRules {
    /// The rules that were given, each by its name and what it says.
    ///
    /// # Errors
    /// `Argument` if there is no such rule, or it says what it can't.
    pub fn of(given: Vec<(String, RuleValue)>) -> Result<Self> {
        let mut rules = Self::default();
        for (name, value) in given {
            rules.set(&name, value)?;
        }
        Ok(rules)
    }

    fn set(&mut self, name: &str, value: RuleValue) -> Result<()> {
        match name {
            "nulls" => self.nulls = value.read()?,
            "decimal" => self.decimal = value.read()?,
            "raw" => self.is_raw = value.read()?,
            "split" => self.split = value.read::<Option<Vec<u8>>>()?.map(Arc::from),
            "clip" => self.clip = value.read::<Option<_>>()?.map(|(low, high)| [low, high]),
            "cast" => self.cast = value.read()?,
            "rounding" => self.is_rounding = value.read()?,
            "hash" => self.hash = value.read::<Option<_>>()?.map(|(count, seed)| Buckets { count, seed }),
            "codes" => {
                let (values, unknown): (Option<Several<_>>, _) = value.read()?;
                self.codes = Some(Codes { values: values.map(|values| Arc::new(values.0)), unknown });
            }
            "pad" => {
                let (size, value, at, kept) = value.read()?;
                self.pad = Some(Pad { size, value, at, kept });
            }
            "fixed" => self.fixed = value.read::<Option<Several<_>>>()?.map(|sizes| sizes.0),
            "optional" => self.is_optional = value.read()?,
            "from_path" => self.is_of_path = value.read()?,
            _ => return Err(Error::Argument(format!("columns have no rule called '{name}'"))),
        }
        Ok(())
    }
}

/// Columns, and what becomes of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expression {
    /// Names, names of structs, or patterns.
    pub names: Vec<String>,
    /// What becomes of each column.
    pub rules: ColumnRules,
    /// The name of its tensor, if not that of the column.
    pub alias: Option<String>,
    /// What the user wrote, for people.
    pub text: String,
}

/// One entry of what is asked for.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a list of them is made once")]
pub enum Entry {
    /// Columns as they are, by name, name of a struct, or pattern; behind a `!`, those that are not delivered so.
    Plain(String),
    /// What becomes of columns.
    Made(Expression),
    /// Columns side by side, as one matrix.
    Stack {
        /// The name of its tensor.
        name: String,
        /// The columns.
        parts: Vec<Expression>,
        /// What the user wrote, for people.
        text: String,
    },
}

/// What is asked of the columns of a dataset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// What is delivered, in this order; all columns as they are if none is said.
    pub columns: Option<Vec<Entry>>,
    /// What becomes of the nulls of columns of which nothing else is said.
    pub nulls: Policy,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, value: RuleValue) -> Result<ColumnRules> {
        ColumnRules::of(vec![(name.into(), value)])
    }

    #[test]
    fn rules_are_what_their_values_say() {
        let text = |text: &str| RuleValue::Text(text.into());
        let pad = vec![RuleValue::Integer(4), RuleValue::Float(0.5), text("left"), RuleValue::Nothing];
        let pad = rule("pad", RuleValue::List(pad)).unwrap().pad;
        assert_eq!(pad, Some(Pad { size: 4, value: Fill::Float(0.5), at: End::Head, kept: None }));
        let codes =
            vec![RuleValue::List(vec![text("a"), RuleValue::Bytes(vec![0xff])]), RuleValue::Integer(1)];
        let codes = rule("codes", RuleValue::List(codes)).unwrap().codes.unwrap();
        assert_eq!((codes.values, codes.unknown), (Some(Arc::new(vec![b"a".to_vec(), vec![0xff]])), Some(1)));
        assert_eq!(rule("nulls", text("mask")).unwrap().nulls, Some(Policy::Mask));
        assert_eq!(
            rule("nulls", RuleValue::Truth(false)).unwrap().nulls,
            Some(Policy::Fill(Fill::Truth(false)))
        );
    }

    #[test]
    fn what_no_rule_says_is_refused() {
        let several = RuleValue::List(vec![RuleValue::Integer(1)]);
        for (name, value) in [
            ("hashed", RuleValue::Truth(true)),
            ("hash", several.clone()),
            ("hash", RuleValue::List(vec![RuleValue::Integer(-1), RuleValue::Integer(0)])),
            ("cast", RuleValue::Text("int65".into())),
            ("decimal", RuleValue::Text("int32".into())),
            ("optional", RuleValue::Integer(1)),
            ("split", several),
        ] {
            assert!(matches!(rule(name, value.clone()), Err(Error::Argument(_))), "{name} {value:?}");
        }
    }
}
