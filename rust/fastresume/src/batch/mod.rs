//! Decodes rows of row groups into the memory of their batches.

pub mod slots;
pub mod bunch;
pub mod window;
pub mod segment;
pub mod bunch_size;
pub mod routing;
pub mod mending;
pub mod strips;
pub mod padded;
pub mod sources;
pub mod open_files;
pub mod fetches;
pub mod combed_rows;
pub mod sorted_rows;
pub mod waiting;
pub mod filler;
pub mod to_strips;
pub mod to_sorted;
pub mod lists;
pub mod gather_rows;
pub mod joining;
pub mod mixing;
pub mod sequences;
pub mod ended_bunch;
pub mod random_access;
pub mod sequence_reader;
