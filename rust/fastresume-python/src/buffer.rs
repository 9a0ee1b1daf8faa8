//! Memory that the core filled, exported to torch and numpy without a copy.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;

use fastresume::vectors::collected;
use fastresume::{Memory, Result, pool};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::gate;

/// Memory with several owners, and its address.
pub struct Shared {
    memory: UnsafeCell<Memory>,
    length: usize,
}

// SAFETY: after construction no Rust code reads or writes the memory. Its address is given out through the buffer
// protocol and DLPack, whose consumers order their accesses as for any memory of Python's.
#[allow(unsafe_code, reason = "protocols hand out an address")]
unsafe impl Sync for Shared {}

impl From<Memory> for Shared {
    fn from(memory: Memory) -> Self {
        Self { length: memory.len(), memory: UnsafeCell::new(memory) }
    }
}

impl Shared {
    /// The number of bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where the bytes begin; they never move.
    #[allow(unsafe_code, reason = "protocols hand out an address")]
    pub fn address(&self) -> *mut u8 {
        // SAFETY: no reference to the memory exists (see above), so a mutable one is unique while the address
        // is taken.
        unsafe { (*self.memory.get()).bytes_mut().as_mut_ptr() }
    }
}

/// Writable bytes, aligned to 8, that live as long as an object refers to them.
///
/// `torch.frombuffer` and `numpy.frombuffer` take it.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Buffer {
    memory: Arc<Shared>,
}

impl From<Memory> for Buffer {
    fn from(memory: Memory) -> Self {
        Arc::new(Shared::from(memory)).into()
    }
}

impl From<Arc<Shared>> for Buffer {
    fn from(memory: Arc<Shared>) -> Self {
        Self { memory }
    }
}

impl Buffer {
    /// The `[start, end)` pairs as consecutive 64-bit integers.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn of_ranges(ranges: impl Iterator<Item = std::ops::Range<u64>>) -> Result<Self> {
        collected(ranges.flat_map(|range| [range.start, range.end])).map(Self::of_words)
    }

    /// The words, as 64-bit integers.
    pub fn of_words(words: Vec<u64>) -> Self {
        Memory::from(words).into()
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.memory.length()
    }

    fn __repr__(&self) -> String {
        format!("Buffer({} bytes)", self.memory.length())
    }

    #[allow(unsafe_code, reason = "the buffer protocol hands out an address")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = &slf.get().memory;
        let length = isize::try_from(memory.length()).map_err(|_| PyBufferError::new_err("too large"))?;
        let address = memory.address().cast();
        // SAFETY: `view` is the caller's, as the protocol demands. Address and length are those of the
        // memory, which is never resized, and the view holds a reference to `slf`.
        let code = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, length, 0, flags) };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Returns the unused memory of released batches to the system.
#[pyfunction]
fn release_memory(py: Python<'_>) -> PyResult<()> {
    gate::run(py, || {
        pool::release();
        Ok(())
    })
}

/// The BLAKE3 of bytes, which nobody may write meanwhile.
#[pyfunction]
#[allow(unsafe_code, reason = "a copy of gigabytes would take longer than the hash")]
fn digest(py: Python<'_>, content: PyBuffer<u8>) -> PyResult<Bound<'_, PyBytes>> {
    let address =
        content.as_slice_ptr().ok_or_else(|| PyBufferError::new_err("the bytes are not C-contiguous"))?;
    // SAFETY: the buffer keeps the memory there for as long as it lives, which is longer than the slice; its
    // caller has promised that nobody writes it.
    let found: &[u8] = unsafe { address.as_ref() };
    let hash = gate::run(py, || Ok(blake3::hash(found)))?;
    Ok(PyBytes::new(py, hash.as_bytes()))
}

/// Adds the class and the functions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Buffer>()?;
    module.add_function(wrap_pyfunction!(digest, module)?)?;
    module.add_function(wrap_pyfunction!(release_memory, module)?)
}
