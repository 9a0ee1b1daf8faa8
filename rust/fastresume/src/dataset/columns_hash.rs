//! What columns are in each file, as a hash: what was worked out of their values is of these columns and no others.

use crate::dataset::file_value::FileValue;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::format::metadata::footer::HASH_BYTES;
use crate::schema::columns::{Column, Given};

impl Manifest {
    /// The hash of what files call columns, where and how they hold them, and of the values that stand in their paths or
    /// that a table tells: 32 hexadecimal digits. Members are of their structs' names; without names, all columns count.
    ///
    /// # Errors
    /// `Data` if there is no memory.
    pub fn columns_hash(&self, names: Option<&[String]>, of_paths: &[String]) -> Result<String> {
        let is_meant =
            |column: &Column| names.is_none_or(|names| names.iter().any(|name| is_named(column, name)));
        let mut hasher = blake3::Hasher::new();
        let mut given = Vec::new();
        for (columns, _) in self.schemas() {
            let columns: Vec<&Column> = columns.iter().filter(|column| is_meant(column)).collect();
            let are_given = |column: &&&Column| matches!(column.given, Some(Given::File | Given::Member));
            given.push(
                columns.iter().filter(are_given).map(|column| column.name.as_str()).collect::<Vec<_>>(),
            );
            add(&mut hasher, &columns)?;
        }
        for file in 0..self.files().len() {
            let schema = self.schema_of(file);
            add(&mut hasher, &schema)?;
            let names = given[schema].iter().copied().chain(of_paths.iter().map(String::as_str));
            let values: Vec<FileValue> = names.map(|name| self.value(file, name)).collect();
            add(&mut hasher, &values)?;
        }
        Ok(hasher.finalize().to_hex()[..2 * HASH_BYTES].to_owned())
    }
}

fn is_named(column: &Column, name: &str) -> bool {
    column.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn add(hasher: &mut blake3::Hasher, part: &impl serde::Serialize) -> Result<()> {
    let bytes = postcard::to_allocvec(part).map_err(|cause| Error::data(cause.to_string()))?;
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
    Ok(())
}
