//! The order and the cursors of units, which rows of files are put together to, as a Python class.

use std::sync::Arc;

use fastresume::{
    Cursor as CoreCursor, Manifest as CoreManifest, OrderKind, Read, Selection, SourceFiles,
    Units as CoreUnits,
};
use pyo3::prelude::*;

use crate::cursor::{ChoiceNumbers, Cursor, to_choice};
use crate::gate;
use crate::manifest::Manifest;
use crate::order::{Order, of_cursor};
use crate::unit_table::UnitTable;

/// The units of a dataset: what its cursors and its order count in the place of rows.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Units {
    inner: Arc<CoreUnits>,
    manifest: Arc<CoreManifest>,
    rows: Arc<Selection>,
    unit_bytes: u64,
}

impl Units {
    /// All of them, as an order takes them.
    pub fn selection(&self) -> &Arc<Selection> {
        self.inner.selection()
    }

    fn read(&self) -> Read<'_> {
        Read { manifest: &self.manifest, selection: &self.rows, units: Some(&self.inner) }
    }

    /// The files whose units they are.
    pub fn files(&self) -> SourceFiles {
        let (manifest, selection) = (Arc::clone(&self.manifest), Arc::clone(&self.rows));
        SourceFiles { manifest, selection, units: Some(Arc::clone(&self.inner)) }
    }
}

#[pymethods]
impl Units {
    /// The units of a table; `rule` says how rows become units.
    #[new]
    fn new(manifest: &Manifest, table: &UnitTable, rule: String, unit_bytes: u64) -> Self {
        let table = &table.inner;
        let inner = Arc::new(CoreUnits::new(table.starts(), table.file_starts().to_vec(), rule));
        let (manifest, rows) = (Arc::clone(&manifest.inner), Arc::clone(&manifest.selection));
        Self { inner, manifest, rows, unit_bytes }
    }

    #[getter]
    fn count(&self) -> u64 {
        self.inner.selection().count()
    }

    /// The hash of the selected rows, and of how they become units.
    #[getter]
    fn hash(&self) -> String {
        self.inner.hash(&self.rows)
    }

    /// The first cursor of a job with this choice of order.
    #[pyo3(signature = (choice))]
    fn start(&self, py: Python<'_>, choice: ChoiceNumbers) -> PyResult<Cursor> {
        gate::run(py, || {
            let units = self.inner.selection();
            let order = to_choice(choice).resolve(units.count(), self.unit_bytes, units.largest_group())?;
            Ok(CoreCursor::start(self.read().identity(order)).into())
        })
    }

    /// The same place in a dataset, which may have grown if that is allowed. Refuses a cursor of another dataset,
    /// selection or way of making units, and one whose order contradicts the choice.
    #[pyo3(signature = (cursor, choice, appends))]
    fn fitted(
        &self,
        py: Python<'_>,
        cursor: &Cursor,
        choice: ChoiceNumbers,
        appends: bool,
    ) -> PyResult<Cursor> {
        gate::run(py, || {
            let fitted = cursor.inner.fitted(self.read(), appends)?;
            fitted.check_identity(&self.read().identity(OrderKind::Sequential), &to_choice(choice))?;
            Ok(fitted.into())
        })
    }

    /// The unit at each position of the pass that a cursor is in.
    fn order(&self, py: Python<'_>, cursor: &Cursor) -> PyResult<Order> {
        gate::run(py, || Ok(Order { inner: of_cursor(cursor, self.inner.selection())? }))
    }
}
