//! Files of Arrow's format, as Python classes.

use std::path::PathBuf;
use std::sync::Arc;

use fastresume::{ArrowFileRows, ArrowFiles as CoreFiles, ArrowSchemas as CoreSchemas, Error};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::arrow::fields_of;
use crate::error::to_python;
use crate::gate;
use crate::rows::Rows;
use crate::stores::Stores;

/// Files of which the schemas were read.
#[pyclass(frozen, module = "fastresume._core")]
pub struct ArrowSchemas {
    inner: CoreSchemas,
    stores: Py<Stores>,
}

/// Files whose batches are known. It is pickled as it is: no file is read for that.
#[pyclass(frozen, module = "fastresume._core")]
pub struct ArrowFiles {
    inner: CoreFiles,
    stores: Py<Stores>,
}

#[pymethods]
impl ArrowSchemas {
    /// The files that paths mean, in generations; of each the schema is read.
    #[staticmethod]
    fn list(py: Python<'_>, paths: Vec<Vec<PathBuf>>, stores: Py<Stores>) -> PyResult<Self> {
        let files = stores.get().file_system();
        let inner = gate::run_stoppable(py, |stop| CoreSchemas::list(files, &paths, stop))?;
        stores.get().tell(py)?;
        Ok(Self { inner, stores })
    }

    /// The schemas that differ, each as its message, and the first file that has it.
    fn distinct<'py>(&self, py: Python<'py>) -> Vec<(PathBuf, Bound<'py, PyBytes>)> {
        let each = self.inner.distinct().into_iter();
        each.map(|(path, schema)| (path.to_owned(), PyBytes::new(py, schema))).collect()
    }

    /// The files, whose schema is what has `__arrow_c_schema__`: of each batch the metadata are read.
    fn open(&self, py: Python<'_>, schema: &Bound<'_, PyAny>) -> PyResult<ArrowFiles> {
        let fields = fields_of(schema)?.map_err(|error| to_python(py, &error))?;
        let inner = gate::run_stoppable(py, |stop| self.inner.open(&fields, stop))?;
        self.stores.get().tell(py)?;
        Ok(ArrowFiles { inner, stores: self.stores.clone_ref(py) })
    }
}

#[pymethods]
impl ArrowFiles {
    /// What the manifest is made of: of each file its path, the rows of its row groups, and what differs if its batches do.
    fn parts<'py>(&self, py: Python<'py>) -> Vec<(PathBuf, Vec<u64>, Bound<'py, PyBytes>)> {
        let each = self.inner.parts().into_iter();
        each.map(|part| (part.name, part.group_rows, PyBytes::new(py, &part.hash))).collect()
    }

    /// The stores that objects are read from.
    #[getter]
    fn stores(&self, py: Python<'_>) -> Py<Stores> {
        self.stores.clone_ref(py)
    }

    /// What the rows are read from.
    #[pyo3(signature = (schema, footer, made_of=None))]
    fn rows(
        &self,
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        footer: Vec<u8>,
        made_of: Option<(Py<PyAny>, Py<PyAny>)>,
    ) -> PyResult<Rows> {
        let fields = fields_of(schema)?.map_err(|error| to_python(py, &error))?;
        Ok(Rows::new(Arc::new(ArrowFileRows::new(fields, footer, self.inner.clone())), made_of))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], stores: Py<Stores>) -> PyResult<Self> {
        let files = stores.get().file_system();
        let inner = gate::run(py, || {
            let inner: CoreFiles = postcard::from_bytes(data)
                .map_err(|cause| Error::State(format!("a pickled dataset is damaged: {cause}")))?;
            Ok(inner.in_file_system(files))
        })?;
        Ok(Self { inner, stores })
    }

    #[allow(clippy::type_complexity, reason = "what pickle wants: a function and its arguments")]
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>, Py<Stores>))> {
        let py = slf.py();
        let Self { inner, stores } = slf.get();
        let bytes = gate::run(py, || {
            postcard::to_allocvec(inner)
                .map_err(|cause| Error::Argument(format!("the dataset can't be pickled: {cause}")))
        })?;
        let class: Bound<'py, PyType> = slf.get_type();
        Ok((class.getattr("from_bytes")?, (PyBytes::new(py, &bytes), stores.clone_ref(py))))
    }
}
