//! Pages of a column chunk: found, read and opened one after another.

pub mod sizes;
pub mod locations;
pub mod kept_pages;
pub mod scanner;
pub mod known_pages;
pub mod reader;
pub mod made_pages;
pub mod pages;
