//! The core's errors as Python exceptions.

use fastresume::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::raised;

static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static STATE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static DATA: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SOURCE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Makes the exception classes and adds them to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_function(wrap_pyfunction!(bounded, module)?)?;
    // Each class has two bases, which `create_exception!` does not offer. So it is made as
    // `type(name, bases, dict)` does.
    let make = |slot: &PyOnceLock<Py<PyType>>, name: &str, doc: &str, bases: Bound<'_, PyTuple>| {
        let members = PyDict::new(py);
        members.set_item("__module__", "fastresume")?;
        members.set_item("__doc__", doc)?;
        let class = py.get_type::<PyType>().call1((name, bases, members))?.cast_into::<PyType>()?;
        let class = slot.get_or_init(py, || class.unbind()).bind(py);
        module.add(name, class)?;
        Ok::<_, PyErr>(class.clone())
    };
    let base = make(
        &BASE,
        "FastresumeError",
        "Base of all that fastresume raises beyond `TypeError`, `ValueError` and `IndexError` for wrong arguments.",
        PyTuple::new(py, [py.get_type::<PyRuntimeError>()])?,
    )?;
    make(
        &STATE,
        "StateError",
        "A resume state that is damaged, of another version, or of another dataset or order; also a `ValueError`.",
        PyTuple::new(py, [&base, &py.get_type::<PyValueError>()])?,
    )?;
    make(
        &DATA,
        "DataError",
        "A file whose content can't be used: damaged, or of a schema that does not fit; also a `ValueError`.",
        PyTuple::new(py, [&base, &py.get_type::<PyValueError>()])?,
    )?;
    make(
        &SOURCE,
        "SourceError",
        "Bytes that can't be had: no such file, no permission, a failed read; also an `OSError`.",
        PyTuple::new(py, [&base, &py.get_type::<PyOSError>()])?,
    )?;
    Ok(())
}

/// The message without the passwords of addresses, and without its middle if it is long.
#[pyfunction]
pub fn bounded(message: &str) -> String {
    fastresume::bounded(message)
}

/// The Python exception of a core error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let slot = match error {
        Error::Argument(_) => return PyValueError::new_err(error.to_string()),
        Error::State(_) => &STATE,
        Error::Data { .. } => &DATA,
        Error::Source(_) | Error::Unsettled(_) => &SOURCE,
        Error::Interrupted => &BASE,
    };
    let told = error.to_string();
    let cause =
        matches!(error, Error::Source(_) | Error::Unsettled(_)).then(|| raised::cause_of(&told)).flatten();
    let raised = match slot.get(py) {
        Some(class) => PyErr::from_type(class.bind(py).clone(), (told,)),
        None => PyRuntimeError::new_err(told),
    };
    if let Some(cause) = cause {
        raised.set_cause(py, Some(PyErr::from_value(cause.into_bound(py))));
    }
    raised
}
