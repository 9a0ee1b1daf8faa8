//! The interval algebra over int64 arrays, as Python calls it.

use std::cell::Cell;
use std::ops::Range;

use fastresume::vectors::collected;
use fastresume::{Intervals, Memory, Result, arrays, permutation, split::split};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::error::to_python;
use crate::gate;

/// Adds the functions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(remaining, module)?)?;
    module.add_function(wrap_pyfunction!(slice_intervals, module)?)?;
    module.add_function(wrap_pyfunction!(greatest, module)?)?;
    module.add_function(wrap_pyfunction!(intersection, module)?)?;
    module.add_function(wrap_pyfunction!(marked, module)?)?;
    module.add_function(wrap_pyfunction!(split_rows, module)?)?;
    module.add_function(wrap_pyfunction!(keys, module)?)
}

/// The intervals in a C-contiguous int64 array of shape `[n, 2]`.
pub fn read(py: Python<'_>, array: &PyBuffer<i64>) -> PyResult<Vec<Range<i64>>> {
    let pairs = numbers(py, array)?.chunks_exact(2).map(|pair| pair[0].get()..pair[1].get());
    collected(pairs).map_err(|error| to_python(py, &error))
}

/// What becomes of each number of a C-contiguous array.
pub fn each<T: Element, V>(py: Python<'_>, array: &PyBuffer<T>, made: impl Fn(T) -> V) -> PyResult<Vec<V>> {
    collected(numbers(py, array)?.iter().map(|number| made(number.get())))
        .map_err(|error| to_python(py, &error))
}

/// The numbers of a C-contiguous array, without a copy.
#[allow(unsafe_code, reason = "a copy of a million intervals takes as long as all the rest")]
fn numbers<'py, T: Element>(_: Python<'py>, array: &'py PyBuffer<T>) -> PyResult<&'py [Cell<T>]> {
    let address =
        array.as_slice_ptr().ok_or_else(|| PyBufferError::new_err("the array is not C-contiguous"))?;
    // SAFETY: the buffer keeps the memory alive, and has checked its alignment. Nobody has a unique reference
    // to it. Python code that writes it waits for the GIL, which is held for the slice's lifetime. A cell's
    // number may change under its reader.
    Ok(unsafe { &*(address.as_ptr() as *const [Cell<T>]) })
}

fn to_buffer(py: Python<'_>, found: Result<Memory>) -> PyResult<Buffer> {
    found.map(Buffer::from).map_err(|error| to_python(py, &error))
}

#[pyfunction]
fn remaining(py: Python<'_>, consumed: PyBuffer<i64>, total: u64) -> PyResult<Buffer> {
    to_buffer(py, arrays::remaining(numbers(py, &consumed)?.as_chunks().0, total))
}

#[pyfunction]
fn slice_intervals(
    py: Python<'_>,
    intervals: PyBuffer<i64>,
    index: u64,
    count: u64,
    multiple_of: u64,
) -> PyResult<Buffer> {
    to_buffer(py, arrays::share(numbers(py, &intervals)?.as_chunks().0, index, count, multiple_of))
}

/// The elementwise maximum of C-contiguous int64 arrays of equal length.
#[pyfunction]
fn greatest(py: Python<'_>, states: Vec<PyBuffer<i64>>) -> PyResult<Buffer> {
    let states: Vec<_> = states.iter().map(|state| numbers(py, state)).collect::<PyResult<_>>()?;
    to_buffer(py, arrays::greatest(&states))
}

/// The numbers that are in both arrays.
#[pyfunction]
fn intersection(py: Python<'_>, left: PyBuffer<i64>, right: PyBuffer<i64>) -> PyResult<Buffer> {
    let (left, right) = (read(py, &left)?, read(py, &right)?);
    gate::run(py, || {
        let both = arrays::to_set(&left)?.intersection(&arrays::to_set(&right)?)?;
        Buffer::of_ranges(both.ranges().iter().cloned())
    })
}

/// The indices at which a C-contiguous uint8 array is not 0.
#[pyfunction]
fn marked(py: Python<'_>, marks: PyBuffer<u8>) -> PyResult<Buffer> {
    let marks = each(py, &marks, |mark| mark)?;
    gate::run(py, || Buffer::of_ranges(Intervals::marked(&marks)?.ranges().iter().cloned()))
}

/// The rows of `[0, num_rows)` whose hash, in units of 2^-53, lies in `[start, stop)`.
#[pyfunction]
fn split_rows(py: Python<'_>, num_rows: u64, start: u64, stop: u64, seed: u64) -> PyResult<Buffer> {
    gate::run_stoppable(py, |asked| {
        let found = split(num_rows, &(start..stop), seed, asked)?;
        Buffer::of_ranges(found.ranges().iter().cloned())
    })
}

/// The hash of `words` followed by each number, as int64.
#[pyfunction]
fn keys(py: Python<'_>, words: Vec<u64>, numbers: PyBuffer<i64>) -> PyResult<Buffer> {
    let numbers = self::numbers(py, &numbers)?.iter().map(|number| number.get().cast_unsigned());
    Ok(Buffer::of_words(permutation::keys(&words, numbers)))
}
