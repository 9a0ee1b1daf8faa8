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

/// What an error tells besides its message: in what a state is of another job, the rule of a column that mends it, and
/// whether nothing has a name.
const DIFFERS_IN: &str = "differs_in";
const REMEDY: &str = "remedy";
const IS_MISSING: &str = "is_missing";

/// Makes the exception classes and adds them to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_function(wrap_pyfunction!(bounded, module)?)?;
    module.add_function(wrap_pyfunction!(nearest, module)?)?;
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
    let state = make(
        &STATE,
        "StateError",
        "A resume state that is damaged, of another version, or of another dataset or order; also a `ValueError`.",
        PyTuple::new(py, [&base, &py.get_type::<PyValueError>()])?,
    )?;
    state.setattr(DIFFERS_IN, py.None())?;
    let data = make(
        &DATA,
        "DataError",
        "A file whose content can't be used: damaged, or of a schema that does not fit; also a `ValueError`.",
        PyTuple::new(py, [&base, &py.get_type::<PyValueError>()])?,
    )?;
    data.setattr(REMEDY, py.None())?;
    let source = make(
        &SOURCE,
        "SourceError",
        "Bytes that can't be had: no such file, no permission, a failed read; also an `OSError`.",
        PyTuple::new(py, [&base, &py.get_type::<PyOSError>()])?,
    )?;
    source.setattr(IS_MISSING, false)
}

/// The message without the passwords of addresses, and without its middle if it is long.
#[pyfunction]
pub fn bounded(message: &str) -> String {
    fastresume::bounded(message)
}

/// The name that is most like a text, if one is much like it.
#[pyfunction]
pub fn nearest(text: &str, names: Vec<String>) -> Option<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fastresume::error::nearest(text, &names).map(str::to_owned)
}

/// The Python exception of a core error.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let slot = match error {
        Error::Argument(_) => return PyValueError::new_err(error.to_string()),
        Error::State(_) | Error::Foreign { .. } => &STATE,
        Error::Data { .. } => &DATA,
        Error::Source(_) | Error::Missing(_) | Error::Unsettled(_) => &SOURCE,
        Error::Interrupted => &BASE,
    };
    let message = error.to_string();
    let cause =
        matches!(error, Error::Source(_) | Error::Unsettled(_)).then(|| raised::cause_of(&message)).flatten();
    let raised = match slot.get(py) {
        Some(class) => PyErr::from_type(class.bind(py).clone(), (message,)),
        None => PyRuntimeError::new_err(message),
    };
    let noted = match error {
        Error::Foreign { what, .. } => raised.value(py).setattr(DIFFERS_IN, what),
        Error::Data { remedy: Some(remedy), .. } => raised.value(py).setattr(REMEDY, remedy.name()),
        Error::Missing(_) => raised.value(py).setattr(IS_MISSING, true),
        _ => Ok(()),
    };
    if let Err(failed) = noted {
        return failed;
    }
    if let Some(cause) = cause {
        raised.set_cause(py, Some(PyErr::from_value(cause.into_bound(py))));
    }
    raised
}
