//! Memory that the core filled, handed to torch and numpy without a copy.

use std::cell::UnsafeCell;
use std::ffi::c_int;

use fastresume::memory::{self, Memory};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::gate;

/// Writable bytes, aligned to 8, that live as long as something refers to them.
///
/// `torch.frombuffer` and `numpy.frombuffer` take it.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Buffer {
    memory: UnsafeCell<Memory>,
    length: usize,
}

// SAFETY: after construction no Rust code reads or writes the memory; only the address is handed out,
// through the buffer protocol, whose consumers order their accesses as for any Python buffer.
#[allow(unsafe_code, reason = "the buffer protocol hands out an address")]
unsafe impl Sync for Buffer {}

impl From<Memory> for Buffer {
    fn from(memory: Memory) -> Self {
        Self { length: memory.len(), memory: UnsafeCell::new(memory) }
    }
}

impl Buffer {
    /// The pairs as consecutive 64-bit integers.
    pub fn of_ranges(ranges: impl Iterator<Item = std::ops::Range<u64>>) -> Self {
        Self::of_words(ranges.flat_map(|range| [range.start, range.end]).collect())
    }

    /// The words, as 64-bit integers.
    pub fn of_words(words: Vec<u64>) -> Self {
        Memory::from(words).into()
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.length
    }

    fn __repr__(&self) -> String {
        format!("Buffer({} bytes)", self.length)
    }

    #[allow(unsafe_code, reason = "the buffer protocol hands out an address")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let length = isize::try_from(this.length).map_err(|_| PyBufferError::new_err("too large"))?;
        // SAFETY: no reference to the memory exists (see above), so that a mutable one is unique while
        // the address is taken; it is never resized, and the view holds a reference to `slf`.
        let address = unsafe { (*this.memory.get()).bytes_mut().as_mut_ptr() };
        // SAFETY: `view` is the caller's, as the protocol demands; address and length are the memory's.
        let code = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address.cast(), length, 0, flags) };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Gives the memory of batches that nobody has any more back to the system.
#[pyfunction]
fn release_memory(py: Python<'_>) -> PyResult<()> {
    gate::run(py, || {
        memory::release();
        Ok(())
    })
}

/// Adds the class and the function to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Buffer>()?;
    module.add_function(wrap_pyfunction!(release_memory, module)?)
}
