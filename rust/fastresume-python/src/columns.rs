//! What is asked of columns, as Python's values say it: attribute by attribute.

use fastresume::{ColumnRules, Entry, Expression, RuleValue};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// What a rule says: Python's values as the core's.
pub struct RuleArgument(pub RuleValue);

impl<'a, 'py> FromPyObject<'a, 'py> for RuleArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(if value.is_none() {
            RuleValue::Nothing
        } else if value.is_instance_of::<PyBool>() {
            RuleValue::Truth(value.extract()?)
        } else if value.is_instance_of::<PyInt>() {
            RuleValue::Integer(value.extract()?)
        } else if value.is_instance_of::<PyFloat>() {
            RuleValue::Float(value.extract()?)
        } else if value.is_instance_of::<PyString>() {
            RuleValue::Text(value.extract()?)
        } else if value.is_instance_of::<PyBytes>() {
            RuleValue::Bytes(value.extract()?)
        } else {
            let values: Vec<Self> = value.extract()?;
            RuleValue::List(values.into_iter().map(|value| value.0).collect())
        }))
    }
}

/// The rules that were given, each by its name and what it says.
#[derive(FromPyObject)]
struct RulesArgument {
    given: Vec<(String, RuleArgument)>,
}

impl RulesArgument {
    fn rules(self) -> PyResult<ColumnRules> {
        let given = self.given.into_iter().map(|(name, value)| (name, value.0)).collect();
        ColumnRules::of(given).map_err(|error| PyValueError::new_err(error.to_string()))
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

/// Code that makes numbers of the texts of a batch.
#[pyfunction]
pub fn numbers_of_texts(name: &str, in_lists: bool, dtype: &str) -> String {
    fastresume::numbers_of_texts(name, in_lists, Some(dtype))
}
