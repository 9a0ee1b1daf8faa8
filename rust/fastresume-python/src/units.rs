//! The order and the cursors of units, which rows of files are put together to, as a Python class.

use std::sync::Arc;

use fastresume::{Cursor as CoreCursor, Identity, Order as CoreOrder, OrderKind, Selection, list_lengths};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::cursor::{ChoiceNumbers, Cursor, to_choice};
use crate::gate;
use crate::manifest::Manifest;
use crate::order::Order;

/// The units of a dataset: what its cursors and its order count in the place of rows.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Units {
    selection: Arc<Selection>,
    fingerprint: String,
    hash: String,
    unit_bytes: u64,
}

impl Units {
    fn identity(&self, order: OrderKind) -> Identity {
        Identity {
            fingerprint: self.fingerprint.clone(),
            num_rows: self.selection.count(),
            selection: Some(self.hash.clone()),
            order,
        }
    }
}

#[pymethods]
impl Units {
    /// `starts` has the first unit of each stretch of consecutive rows, then the number of units; `told` says how rows
    /// become units.
    #[new]
    fn new(
        py: Python<'_>,
        manifest: &Manifest,
        starts: Vec<u64>,
        told: &str,
        unit_bytes: u64,
    ) -> PyResult<Self> {
        gate::run(py, || {
            let selected = manifest.selection.hash().unwrap_or_default();
            let hash = blake3::hash(format!("{told} {selected}").as_bytes()).to_hex()[..32].to_owned();
            let fingerprint = manifest.inner.fingerprint().to_owned();
            Ok(Self { selection: Arc::new(Selection::everything(&starts)), fingerprint, hash, unit_bytes })
        })
    }

    #[getter]
    fn count(&self) -> u64 {
        self.selection.count()
    }

    /// The hash of the selected rows, and of how they become units.
    #[getter]
    fn hash(&self) -> &str {
        &self.hash
    }

    /// The first cursor of a job with this choice of order.
    #[pyo3(signature = (choice))]
    fn start(&self, py: Python<'_>, choice: ChoiceNumbers) -> PyResult<Cursor> {
        gate::run(py, || {
            let order = to_choice(choice).resolve(
                self.selection.count(),
                self.unit_bytes,
                self.selection.largest_group(),
            )?;
            Ok(CoreCursor::start(self.identity(order)).into())
        })
    }

    /// The same cursor. Refuses one of another dataset, selection or way of making units, and one whose order contradicts
    /// the choice.
    #[pyo3(signature = (cursor, choice))]
    fn fitted(&self, py: Python<'_>, cursor: &Cursor, choice: ChoiceNumbers) -> PyResult<Cursor> {
        let own = self.identity(OrderKind::Sequential);
        gate::run(py, || {
            cursor.inner.check_identity(&own, &to_choice(choice))?;
            Ok(cursor.clone())
        })
    }

    /// The unit at each position of the pass that a cursor is in.
    fn order(&self, py: Python<'_>, cursor: &Cursor) -> PyResult<Order> {
        gate::run(py, || {
            let (identity, selection) = (cursor.inner.identity(), Arc::clone(&self.selection));
            let inner = CoreOrder::of_generations(&identity.order, cursor.inner.epoch(), selection, &[])?;
            Ok(Order { inner })
        })
    }
}

/// The lengths of the lists of these columns in one row group of all rows, selected or not.
#[pyfunction]
pub fn lengths_of_lists(
    py: Python<'_>,
    manifest: &Manifest,
    group: usize,
    names: Vec<String>,
) -> PyResult<Buffer> {
    gate::run(py, || Ok(Buffer::of_words(list_lengths::of_group(&manifest.inner, group, &names)?)))
}
