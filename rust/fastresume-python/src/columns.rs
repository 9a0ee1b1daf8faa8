//! What is asked of columns, as Python's values say it: attribute by attribute.

use std::sync::Arc;

use fastresume::{
    Buckets, Cast, Codes, ColumnRules, Decimals, Dtype, End, Entry, Expression, Fill, Pad, Policy,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What is to become of nulls: "error", "mask", or what stands for them; "" for an empty text.
#[derive(FromPyObject)]
pub enum NullArgument {
    Word(String),
    Truth(bool),
    Integer(i64),
    Large(u64),
    Float(f64),
}

impl NullArgument {
    pub fn policy(&self) -> PyResult<Policy> {
        Ok(match self {
            Self::Word(word) if word == "error" => Policy::Refuse,
            Self::Word(word) if word == "mask" => Policy::Mask,
            Self::Word(word) if word.is_empty() => Policy::Fill(Fill::Empty),
            Self::Word(word) => return Err(unknown("nulls", word)),
            Self::Truth(value) => Policy::Fill(Fill::Truth(*value)),
            Self::Integer(value) => Policy::Fill(Fill::Integer((*value).into())),
            Self::Large(value) => Policy::Fill(Fill::Integer((*value).into())),
            Self::Float(value) => Policy::Fill(Fill::Float(*value)),
        })
    }

    fn fill(&self) -> PyResult<Fill> {
        match self.policy()? {
            Policy::Fill(value) => Ok(value),
            _ => Err(PyValueError::new_err("a pad value must be a number")),
        }
    }
}

/// A text, or bytes.
#[derive(FromPyObject)]
enum TextArgument {
    Text(String),
    Bytes(Vec<u8>),
}

impl TextArgument {
    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// What becomes of a column.
#[derive(FromPyObject)]
struct RulesArgument {
    nulls: Option<NullArgument>,
    decimal: Option<String>,
    raw: Option<bool>,
    split: Option<TextArgument>,
    cast: Option<String>,
    rounding: bool,
    hash: Option<(u64, u64)>,
    codes: Option<(Option<Vec<TextArgument>>, Option<u64>)>,
    pad: Option<(usize, NullArgument, String, Option<String>)>,
    fixed: Option<Vec<Option<usize>>>,
    optional: bool,
    from_path: bool,
}

impl RulesArgument {
    fn rules(self) -> PyResult<ColumnRules> {
        let decimal = |word: String| match word.as_str() {
            "int64" => Ok(Decimals::Integers),
            "float64" => Ok(Decimals::Floats),
            "bytes" => Ok(Decimals::Bytes),
            _ => Err(unknown("decimal", &word)),
        };
        let cast = |word: String| {
            let to = Dtype::of_name(&word).ok_or_else(|| unknown("cast", &word))?;
            Ok::<_, PyErr>(Cast { to, is_rounding: self.rounding })
        };
        let pad = |(size, value, side, kept): (_, NullArgument, String, Option<String>)| {
            let kept = kept.map(|word| end_of(&word, ("head", "tail"))).transpose()?;
            Ok::<_, PyErr>(Pad { size, value: value.fill()?, at: end_of(&side, ("left", "right"))?, kept })
        };
        let codes = |(values, unknown): (Option<Vec<TextArgument>>, _)| {
            let values = values.map(|values| values.into_iter().map(TextArgument::bytes).collect());
            Codes { values: values.map(Arc::new), unknown }
        };
        Ok(ColumnRules {
            nulls: self.nulls.map(|nulls| nulls.policy()).transpose()?,
            decimal: self.decimal.map(decimal).transpose()?,
            is_raw: self.raw.unwrap_or_default(),
            split: self.split.map(|separator| Arc::from(separator.bytes())),
            cast: self.cast.map(cast).transpose()?,
            hash: self.hash.map(|(count, seed)| Buckets { count, seed }),
            codes: self.codes.map(codes),
            pad: self.pad.map(pad).transpose()?,
            fixed: self.fixed,
            is_optional: self.optional,
            is_of_path: self.from_path,
        })
    }
}

/// Columns, and what becomes of each.
#[derive(FromPyObject)]
pub struct ExpressionArgument {
    names: Vec<String>,
    rules: RulesArgument,
    tensor_name: Option<String>,
    text: String,
}

impl ExpressionArgument {
    fn expression(self) -> PyResult<Expression> {
        let Self { names, rules, tensor_name, text } = self;
        Ok(Expression { names, rules: rules.rules()?, alias: tensor_name, text })
    }
}

/// Columns side by side.
#[derive(FromPyObject)]
pub struct StackArgument {
    name: String,
    parts: Vec<ExpressionArgument>,
    text: String,
}

/// One entry of what is asked for.
#[derive(FromPyObject)]
#[expect(clippy::large_enum_variant, reason = "a list of them is made once")]
pub enum EntryArgument {
    #[pyo3(transparent)]
    Plain(String),
    #[pyo3(transparent)]
    Made(ExpressionArgument),
    #[pyo3(transparent)]
    Stack(StackArgument),
}

impl EntryArgument {
    pub fn entry(self) -> PyResult<Entry> {
        match self {
            Self::Plain(text) => Ok(Entry::Plain(text)),
            Self::Made(expression) => Ok(Entry::Made(expression.expression()?)),
            Self::Stack(StackArgument { name, parts, text }) => {
                let parts = parts.into_iter().map(ExpressionArgument::expression).collect::<PyResult<_>>()?;
                Ok(Entry::Stack { name, parts, text })
            }
        }
    }
}

/// The end that one of two words names.
fn end_of(word: &str, (head, tail): (&str, &str)) -> PyResult<End> {
    match word {
        word if word == head => Ok(End::Head),
        word if word == tail => Ok(End::Tail),
        _ => Err(PyValueError::new_err(format!("expected '{head}' or '{tail}', found '{word}'"))),
    }
}

fn unknown(what: &str, word: &str) -> PyErr {
    PyValueError::new_err(format!("{what} is nothing called '{word}'"))
}
