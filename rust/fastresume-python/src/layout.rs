//! Which columns are read, and which tensor of a batch each is a part of.

use fastresume::layout::{Layout as CoreLayout, Stack};
use fastresume::policy::{Fill, NullPolicy, Policy};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::gate;
use crate::manifest::Manifest;

/// What is to become of nulls: "error", "mask", or a number.
#[derive(FromPyObject)]
pub enum NullArgument {
    Word(String),
    Integer(i64),
    Large(u64),
    Float(f64),
}

impl NullArgument {
    fn policy(&self) -> PyResult<Policy> {
        Ok(match self {
            Self::Word(word) if word == "error" => Policy::Refuse,
            Self::Word(word) if word == "mask" => Policy::Mask,
            Self::Word(word) => {
                let reason = format!("nulls must be 'error', 'mask' or a number, found '{word}'");
                return Err(PyValueError::new_err(reason));
            }
            Self::Integer(value) => Policy::Fill(Fill::Integer((*value).into())),
            Self::Large(value) => Policy::Fill(Fill::Integer((*value).into())),
            Self::Float(value) => Policy::Fill(Fill::Float(*value)),
        })
    }
}

/// Name, dtype, columns, whether it is stacked, what its rows are, and whether it is masked.
type FieldParts = (String, &'static str, Vec<String>, bool, &'static str, bool);

/// Which columns are read, and which tensor of a batch each is a part of.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Layout {
    pub inner: CoreLayout,
}

#[pymethods]
impl Layout {
    #[new]
    fn new(
        py: Python<'_>,
        manifest: &Manifest,
        columns: Option<Vec<String>>,
        stacks: Vec<Stack>,
        nulls: Vec<(Option<String>, NullArgument)>,
    ) -> PyResult<Self> {
        let nulls = nulls.into_iter().map(|(key, argument)| Ok((key, argument.policy()?)));
        let nulls: Vec<NullPolicy> = nulls.collect::<PyResult<_>>()?;
        gate::run(py, || {
            let inner = CoreLayout::resolve(&manifest.inner, columns.as_deref(), &stacks, &nulls)?;
            Ok(Self { inner })
        })
    }

    /// The parts of each tensor of a batch.
    #[getter]
    fn fields(&self) -> Vec<FieldParts> {
        let fields = self.inner.fields().iter().map(|field| {
            let (name, columns) = (field.name.clone(), field.columns.clone());
            (name, field.dtype.name(), columns, field.is_stacked, field.kind.name(), field.is_masked())
        });
        fields.collect()
    }

    #[getter]
    fn row_bytes(&self) -> usize {
        self.inner.row_bytes()
    }
}
