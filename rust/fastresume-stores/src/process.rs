//! What a process has of its own: a runtime, the clients of stores, and how much may be in flight.
//!
//! A forked child has none of its parent's threads: it makes its own at the first read, and leaves the copy that it
//! inherited alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastresume::error::check_thread;
use fastresume::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::client::Throttle;
use crate::in_flight::InFlight;
use crate::page::Client;

/// Two threads move more bytes than decoding takes.
const THREADS: usize = 2;

/// Who waits looks so often whether it is to stop.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// So many blocks of a cache are read or written at a time.
const DISK_IN_FLIGHT: usize = 4;

/// What one process has of its own.
pub struct Process {
    id: u32,
    pub runtime: Runtime,
    pub throttle: Arc<Throttle>,
    /// How much more may be done with a local disk at the same time.
    pub disk: Semaphore,
    /// The blocks of caches that are on their way.
    pub in_flight: InFlight,
    /// By the number of whose they are, and the root of their addresses.
    clients: Mutex<HashMap<(u64, String), Arc<dyn Client>>>,
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

impl Process {
    /// That of the present process.
    ///
    /// # Errors
    /// `Source` if the system gives no thread.
    #[allow(
        unsafe_code,
        reason = "what is published is never freed, so that a fork may find it in any state"
    )]
    pub fn current() -> Result<&'static Self> {
        let id = std::process::id();
        loop {
            let found = CURRENT.load(Ordering::Acquire);
            // SAFETY: it is null, or came from `Box::leak`.
            if let Some(process) = unsafe { found.as_ref() }.filter(|process| process.is_current()) {
                return Ok(process);
            }
            let made = Self::new(id)?;
            let made = Box::into_raw(Box::new(made));
            match CURRENT.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: it was made above, and is never freed from here on.
                Ok(_) => return Ok(unsafe { &*made }),
                // SAFETY: nobody else has seen it.
                Err(_) => drop(unsafe { Box::from_raw(made) }),
            }
        }
    }

    /// Whether it is that of this process, and not of one that forked it.
    pub fn is_current(&self) -> bool {
        self.id == std::process::id()
    }

    fn new(id: u32) -> Result<Self> {
        // An application may have chosen one before: then that one is used.
        drop(rustls::crypto::ring::default_provider().install_default());
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("fastresume-io")
            .enable_all()
            .build()
            .map_err(|cause| {
                Error::Source(format!("can't start the threads that read from stores: {cause}"))
            })?;
        Ok(Self {
            id,
            runtime,
            throttle: Arc::default(),
            disk: Semaphore::new(DISK_IN_FLIGHT),
            in_flight: InFlight::default(),
            clients: Mutex::default(),
        })
    }

    /// Waits for what `work` gives, unless the work of this thread is to stop.
    ///
    /// # Errors
    /// As `work` has; `Interrupted` if it is to stop.
    pub fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(async {
            let mut work = std::pin::pin!(work);
            loop {
                match tokio::time::timeout(LOOK_EVERY, work.as_mut()).await {
                    Ok(done) => return done,
                    Err(_) => check_thread()?,
                }
            }
        })
    }

    /// The client of a root of addresses, made where there is none yet.
    ///
    /// # Errors
    /// As `make` has.
    pub fn client(
        &self,
        owner: u64,
        root: &str,
        make: impl FnOnce() -> Result<Arc<dyn Client>>,
    ) -> Result<Arc<dyn Client>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(owner, root.to_owned())) {
            return Ok(Arc::clone(client));
        }
        let client = make()?;
        clients.insert((owner, root.to_owned()), Arc::clone(&client));
        Ok(client)
    }

    /// Drops the clients of one that is gone, if this process has any.
    #[allow(unsafe_code, reason = "what is published is never freed")]
    pub fn forget(owner: u64) {
        // SAFETY: it is null, or came from `Box::into_raw` and is never freed.
        let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
        if let Some(process) = current.filter(|process| process.is_current()) {
            let mut clients = process.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|(other, _), _| *other != owner);
        }
    }
}
