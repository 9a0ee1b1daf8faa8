//! The interval algebra over arrays.

use std::ops::Range;

use fastresume::error::{Error, Result};
use fastresume::intervals::Intervals;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::gate;

/// Adds the functions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(remaining, module)?)?;
    module.add_function(wrap_pyfunction!(slice_intervals, module)?)?;
    module.add_function(wrap_pyfunction!(maximum, module)?)
}

/// The intervals in a C-contiguous int64 array of shape `[n, 2]`.
pub fn read(py: Python<'_>, array: &PyBuffer<i64>) -> PyResult<Vec<Range<i64>>> {
    let numbers = array.to_vec(py)?;
    Ok(numbers.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect())
}

/// The set of such intervals.
pub fn set(ranges: &[Range<i64>]) -> Result<Intervals> {
    let unsigned = |range: &Range<i64>| match (u64::try_from(range.start), u64::try_from(range.end)) {
        (Ok(start), Ok(end)) => Ok(start..end),
        _ => Err(Error::Argument(format!("an interval is negative: [{}, {})", range.start, range.end))),
    };
    Intervals::new(ranges.iter().map(unsigned).collect::<Result<_>>()?)
}

fn to_buffer(set: &Intervals) -> Buffer {
    Buffer::of_ranges(set.ranges().iter().cloned())
}

#[pyfunction]
fn remaining(py: Python<'_>, consumed: PyBuffer<i64>, total: u64) -> PyResult<Buffer> {
    let consumed = read(py, &consumed)?;
    gate::run(py, || {
        let consumed = set(&consumed)?;
        if consumed.end() > total {
            return Err(Error::Argument(format!(
                "an interval ends at {}, beyond the total {total}",
                consumed.end()
            )));
        }
        Ok(to_buffer(&consumed.complement(total)))
    })
}

#[pyfunction]
fn slice_intervals(
    py: Python<'_>,
    intervals: PyBuffer<i64>,
    index: u64,
    count: u64,
    multiple_of: u64,
) -> PyResult<Buffer> {
    let intervals = read(py, &intervals)?;
    gate::run(py, || Ok(to_buffer(&set(&intervals)?.share(index, count, multiple_of)?)))
}

/// The greatest number at each place over arrays of one size.
#[pyfunction]
fn maximum(py: Python<'_>, states: Vec<PyBuffer<i64>>) -> PyResult<Buffer> {
    let mut states = states.into_iter();
    let Some(first) = states.next() else {
        return Err(PyValueError::new_err("no state is given"));
    };
    let mut greatest = first.to_vec(py)?;
    for state in states {
        let state = state.to_vec(py)?;
        py.detach(|| {
            for (greatest, found) in greatest.iter_mut().zip(state) {
                *greatest = found.max(*greatest);
            }
        });
    }
    Ok(Buffer::of_words(greatest.into_iter().map(i64::cast_unsigned).collect()))
}
