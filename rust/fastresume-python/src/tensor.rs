//! Tensors over memory that the core filled, made through `DLPack`: no byte is copied, and no Python object
//! stands between them.
//!
//! Source: the C interface of `DLPack`, version 1, <https://dmlc.github.io/dlpack/latest/c_api.html>, which
//! newer releases of torch offer: <https://github.com/pytorch/pytorch/pull/169724>.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use fastresume::Dtype;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};

use crate::buffer::{Buffer, Shared};

/// The version of these structures. Other versions with the same major number add fields behind these.
const VERSION: Version = Version { major: 1, minor: 0 };
const PROCESSOR: Device = Device { kind: 1, number: 0 };

/// The most dimensions of a tensor that is made directly; one with more is made flat, and viewed with its shape.
const DIMENSIONS: usize = 3;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Device {
    kind: i32,
    number: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Element {
    code: u8,
    bits: u8,
    lanes: u16,
}

impl Element {
    fn of(dtype: Dtype) -> Self {
        let code = match dtype {
            Dtype::Bool => 6,
            Dtype::Bfloat16 => 4,
            Dtype::Float16 | Dtype::Float32 | Dtype::Float64 => 2,
            Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64 => 1,
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => 0,
        };
        Self { code, bits: 8 << dtype.width().ilog2(), lanes: 1 }
    }
}

#[repr(C)]
struct View {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    element: Element,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// A tensor, and the function that releases it.
#[repr(C)]
struct Managed {
    version: Version,
    context: *mut c_void,
    delete: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    view: View,
}

/// The part of torch's table of functions up to the one that is called.
#[repr(C)]
struct Exchange {
    version: Version,
    older: *const c_void,
    allocate: *const c_void,
    of_object: *const c_void,
    to_object: Option<ToObject>,
}

type ToObject = unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int;

/// A tensor and the memory that it owns.
#[repr(C)]
struct Held {
    managed: Managed,
    shape: [i64; DIMENSIONS],
    strides: [i64; DIMENSIONS],
    memory: Arc<Shared>,
}

/// Releases the memory, in whichever thread a tensor is destroyed, with the GIL or without.
#[allow(unsafe_code, reason = "torch hands back what it was given")]
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: this is the first field of a `Held` made by `Box`, and torch passes it back once.
    drop(unsafe { Box::from_raw(managed.cast::<Held>()) });
}

/// The dtype and the shape of a row of a tensor.
struct Type {
    element: Element,
    dtype: Py<PyAny>,
    /// All dimensions but the first one.
    sizes: Vec<i64>,
}

/// Makes tensors of the memory of batches. The types of the fields are known beforehand.
#[pyclass(frozen, module = "fastresume._core")]
pub struct TensorMaker {
    types: Vec<Type>,
    /// Makes a tensor over a `Buffer`: the slower way, where torch lacks the interface.
    over: Py<PyAny>,
    to_object: Option<ToObject>,
}

#[pymethods]
impl TensorMaker {
    /// For fields of these types (by name, and as torch's dtypes) and shapes of a row, field after field.
    #[new]
    #[pyo3(signature = (types, over, exchange=None))]
    fn new(
        types: Vec<(String, Py<PyAny>, Vec<i64>)>,
        over: Py<PyAny>,
        exchange: Option<Bound<'_, PyCapsule>>,
    ) -> PyResult<Self> {
        let types = types.into_iter().map(|(name, dtype, sizes)| match Dtype::of_name(&name) {
            Some(known) => Ok(Type { element: Element::of(known), dtype, sizes }),
            None => Err(PyValueError::new_err(format!("no tensor has elements of the type {name}"))),
        });
        let to_object = exchange.as_ref().and_then(to_object);
        Ok(Self { types: types.collect::<PyResult<_>>()?, over, to_object })
    }

    /// A tensor over each field's memory, with as many rows as it has. The tensors keep the memory alive.
    fn tensors<'py>(&self, py: Python<'py>, memory: &Memory) -> PyResult<Bound<'py, PyList>> {
        if memory.fields.len() != self.types.len() {
            let (found, expected) = (memory.fields.len(), self.types.len());
            return Err(PyValueError::new_err(format!(
                "found memory of {found} fields, expected {expected}"
            )));
        }
        let tensors = memory.fields.iter().zip(&self.types).map(|(memory, of)| {
            let memory = Arc::clone(memory);
            let tensor = match self.to_object {
                Some(to_object) if of.sizes.len() < DIMENSIONS => {
                    return wrapped(py, held(memory, of.element, &of.sizes)?, to_object);
                }
                Some(to_object) => wrapped(py, held(memory, of.element, &[])?, to_object)?,
                None => self.over.bind(py).call1((Buffer::from(memory), &of.dtype))?,
            };
            if of.sizes.is_empty() {
                return Ok(tensor);
            }
            tensor.call_method1("view", PyTuple::new(py, [&[-1], &of.sizes[..]].concat())?)
        });
        PyList::new(py, tensors.collect::<PyResult<Vec<_>>>()?)
    }
}

/// Torch's function that makes a Python object of a tensor, if its version is this one.
#[allow(unsafe_code, reason = "a capsule holds a pointer")]
fn to_object(capsule: &Bound<'_, PyCapsule>) -> Option<ToObject> {
    let exchange: NonNull<c_void> = capsule.pointer_checked(Some(c"dlpack_exchange_api")).ok()?;
    // SAFETY: a capsule of this name has a pointer to such a structure, which lives as long as the process.
    // In every version it begins with the version.
    let version = unsafe { exchange.cast::<Version>().read() };
    // SAFETY: as above; all versions with one major number have these functions at the same places.
    (version.major == VERSION.major).then(|| unsafe { exchange.cast::<Exchange>().as_ref() }.to_object)?
}

/// A tensor for torch to own, with these dimensions behind its first one.
fn held(memory: Arc<Shared>, element: Element, sizes: &[i64]) -> PyResult<Box<Held>> {
    let too_large = || PyValueError::new_err("too large");
    let bytes = memory.length();
    let mut length = i64::try_from(bytes / usize::from(element.bits / 8)).map_err(|_| too_large())?;
    let (mut shape, mut strides) = ([1; DIMENSIONS], [1; DIMENSIONS]);
    let mut stride: i64 = 1;
    for (at, &size) in sizes.iter().enumerate().rev() {
        (shape[at + 1], strides[at + 1]) = (size, stride);
        length = length.checked_div(size).ok_or_else(too_large)?;
        stride = stride.checked_mul(size).ok_or_else(too_large)?;
    }
    (shape[0], strides[0]) = (length, stride);
    let dimensions = i32::try_from(1 + sizes.len()).map_err(|_| too_large())?;
    let data = if bytes == 0 { ptr::null_mut() } else { memory.address().cast() };
    let nowhere = ptr::null_mut();
    let view = View {
        data,
        device: PROCESSOR,
        dimensions,
        element,
        shape: nowhere,
        strides: nowhere,
        byte_offset: 0,
    };
    let managed =
        Managed { version: VERSION, context: ptr::null_mut(), delete: Some(delete), flags: 0, view };
    Ok(Box::new(Held { managed, shape, strides, memory }))
}

/// The tensor as a Python object.
#[allow(unsafe_code, reason = "torch is called through its C interface")]
fn wrapped(py: Python<'_>, held: Box<Held>, to_object: ToObject) -> PyResult<Bound<'_, PyAny>> {
    let held = Box::into_raw(held);
    let mut object = ptr::null_mut();
    // SAFETY: the pointers are those of fields of `held`, which torch owns from now on, until it calls
    // `delete`. The GIL is held, and the function returns an object that the caller owns, or sets an
    // exception.
    unsafe {
        (*held).managed.view.shape = (&raw mut (*held).shape).cast();
        (*held).managed.view.strides = (&raw mut (*held).strides).cast();
        let code = to_object(held.cast(), &raw mut object);
        if code == 0 { Ok(Bound::from_owned_ptr(py, object.cast())) } else { Err(PyErr::fetch(py)) }
    }
}

/// The memory of a batch's fields, of which tensors are made.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Memory {
    fields: Vec<Arc<Shared>>,
}

impl From<Vec<fastresume::Memory>> for Memory {
    fn from(fields: Vec<fastresume::Memory>) -> Self {
        Self { fields: fields.into_iter().map(|memory| Arc::new(Shared::from(memory))).collect() }
    }
}
