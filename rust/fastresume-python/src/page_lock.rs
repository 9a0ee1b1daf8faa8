//! Pages locked (pinned) by CUDA's driver, so that a device copies them by itself.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use fastresume::PageLock as CorePageLock;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// `CU_MEMHOSTREGISTER_PORTABLE`: locked for all devices.
const PORTABLE: c_uint = 1;

type Push = unsafe extern "C" fn(*mut c_void) -> c_int;
type Pop = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Register = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> c_int;
type Unregister = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The driver's functions for locking pages: four functions, and the context of a device.
struct Driver {
    context: usize,
    push: Push,
    pop: Pop,
    register: Register,
    unregister: Unregister,
    /// The process that made this: a forked child must not call CUDA.
    process: u32,
    locked_bytes: AtomicUsize,
    /// The driver's status when it refused to lock. After that it is not asked again.
    failure: AtomicI32,
}

impl fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Driver").field("locked_bytes", &self.locked_bytes).finish_non_exhaustive()
    }
}

impl Driver {
    /// Calls a function in the device's context, whatever context the thread has; returns the driver's
    /// status.
    #[allow(unsafe_code, reason = "functions of the driver, whose addresses the caller vouched for")]
    fn within(&self, call: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: see `PageLock::new`. The context is one of the driver's, or one that its stand-in in tests
        // made.
        let pushed = unsafe { (self.push)(ptr::with_exposed_provenance_mut(self.context)) };
        if pushed != 0 {
            return pushed;
        }
        let status = call();
        let mut popped = ptr::null_mut();
        // SAFETY: as above; the place for the context exists for the whole call.
        let _ = unsafe { (self.pop)(&raw mut popped) };
        status
    }
}

impl CorePageLock for Driver {
    #[allow(unsafe_code, reason = "a function of the driver, whose address the caller vouched for")]
    fn lock(&self, address: usize, bytes: usize) -> bool {
        if self.process != std::process::id() || self.failure.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let at = ptr::with_exposed_provenance_mut(address);
        // SAFETY: see `PageLock::new`. The core owns these bytes, and unlocks them before it frees them.
        let status = self.within(|| unsafe { (self.register)(at, bytes, PORTABLE) });
        if status == 0 {
            self.locked_bytes.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.failure.store(status, Ordering::Relaxed);
        }
        status == 0
    }

    #[allow(unsafe_code, reason = "a function of the driver, whose address the caller vouched for")]
    fn unlock(&self, address: usize, bytes: usize) {
        if self.process != std::process::id() {
            return;
        }
        let at = ptr::with_exposed_provenance_mut(address);
        // SAFETY: as in `lock`; the bytes still exist. When the process ends, the driver may be gone, and
        // returns a status.
        if self.within(|| unsafe { (self.unregister)(at) }) == 0 {
            self.locked_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Locks pages for devices. It lives as long as the process, because the pages that it locked may.
///
/// It takes the addresses of `cuCtxPushCurrent`, `cuCtxPopCurrent`, `cuMemHostRegister` and
/// `cuMemHostUnregister`, which must stay valid.
#[pyclass(frozen, module = "fastresume._core")]
pub struct PageLock {
    driver: &'static Driver,
}

impl PageLock {
    /// The object that the core calls.
    pub fn of_core(&self) -> &'static dyn CorePageLock {
        self.driver
    }
}

#[pymethods]
impl PageLock {
    #[new]
    #[allow(unsafe_code, reason = "an address becomes a function")]
    fn new(context: usize, functions: (usize, usize, usize, usize)) -> PyResult<Self> {
        let (push, pop, register, unregister) = functions;
        if [push, pop, register, unregister].contains(&0) {
            return Err(PyValueError::new_err("a function has the address 0"));
        }
        // SAFETY: the only caller takes the addresses from the driver's library, which is never unloaded. The
        // signatures are those of its header.
        let (push, pop, register, unregister) = unsafe {
            (
                std::mem::transmute::<*const (), Push>(ptr::with_exposed_provenance(push)),
                std::mem::transmute::<*const (), Pop>(ptr::with_exposed_provenance(pop)),
                std::mem::transmute::<*const (), Register>(ptr::with_exposed_provenance(register)),
                std::mem::transmute::<*const (), Unregister>(ptr::with_exposed_provenance(unregister)),
            )
        };
        let driver = Driver {
            context,
            push,
            pop,
            register,
            unregister,
            process: std::process::id(),
            locked_bytes: AtomicUsize::new(0),
            failure: AtomicI32::new(0),
        };
        Ok(Self { driver: Box::leak(Box::new(driver)) })
    }

    /// Locks the pages of these bytes; returns whether they are locked.
    fn lock(&self, py: Python<'_>, address: usize, num_bytes: usize) -> bool {
        py.detach(|| self.driver.lock(address, num_bytes))
    }

    /// Unlocks the pages that were locked at an address.
    fn unlock(&self, py: Python<'_>, address: usize, num_bytes: usize) {
        py.detach(|| self.driver.unlock(address, num_bytes));
    }

    /// The number of locked bytes.
    #[getter]
    fn locked_bytes(&self) -> usize {
        self.driver.locked_bytes.load(Ordering::Relaxed)
    }

    /// The driver's status when it refused to lock, after which nothing more is locked; 0 if it never
    /// refused.
    #[getter]
    fn failure(&self) -> i32 {
        self.driver.failure.load(Ordering::Relaxed)
    }
}
