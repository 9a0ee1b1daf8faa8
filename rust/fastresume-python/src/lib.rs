//! `fastresume._core`: the core as Python sees it. It takes arguments, releases the GIL through one gate,
//! maps errors and wraps results. It decides nothing.
#![allow(clippy::needless_pass_by_value, reason = "arguments from Python are extracted into values")]

use fastresume::parallel;
use pyo3::prelude::*;

mod activity;
mod arrow;
mod arrow_files;
mod buffer;
mod columns;
mod cursor;
mod error;
mod gate;
mod intervals;
mod json;
mod layout;
mod manifest;
mod mixture;
mod order;
mod page_lock;
mod pass;
mod patience;
mod process_lock;
mod raised;
mod reader;
mod reserve;
mod rows;
mod stores;
mod table;
mod tensor;
mod unit_table;
mod units;
mod values;

/// How many threads this process can run at once, by its CPU affinity and its control groups.
#[pyfunction]
fn cores() -> usize {
    parallel::cores()
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("IS_OPTIMIZED", !cfg!(debug_assertions))?;
    module.add_function(wrap_pyfunction!(cores, module)?)?;
    error::add_to(module)?;
    intervals::add_to(module)?;
    module.add_class::<activity::Activity>()?;
    module.add_class::<arrow_files::ArrowFiles>()?;
    module.add_class::<arrow_files::ArrowSchemas>()?;
    buffer::add_to(module)?;
    module.add_class::<cursor::Cursor>()?;
    module.add_class::<manifest::FilterCache>()?;
    module.add_class::<manifest::Manifest>()?;
    module.add_class::<layout::Layout>()?;
    module.add_class::<mixture::Axes>()?;
    module.add_class::<mixture::Mixture>()?;
    module.add_class::<mixture::Period>()?;
    module.add_class::<order::Order>()?;
    module.add_class::<page_lock::PageLock>()?;
    module.add_class::<pass::Pass>()?;
    module.add_class::<patience::Patience>()?;
    module.add_class::<reader::Delivered>()?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<stores::StoreCounts>()?;
    module.add_class::<stores::Stores>()?;
    module.add_class::<tensor::Memory>()?;
    module.add_class::<tensor::TensorMaker>()?;
    module.add_class::<unit_table::UnitTable>()?;
    module.add_class::<units::Units>()?;
    module.add_function(wrap_pyfunction!(columns::numbers_of_texts, module)?)?;
    module.add_function(wrap_pyfunction!(unit_table::list_lengths, module)?)?;
    module.add_class::<values::ChunkDetails>()?;
    module.add_class::<values::Field>()?;
    module.add_class::<values::MemoryBound>()?;
    module.add_class::<values::Statistics>()?;
    module.add_class::<values::ThreadActivity>()?;
    module.add_class::<values::Written>()
}
