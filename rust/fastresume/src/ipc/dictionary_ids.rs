//! Which dictionary the indices of a field refer to, as the schema of a file numbers them.

use crate::arrow::field::ArrowField;
use crate::error::{Error, Result};
use crate::ipc::flat_table::FlatTable;

/// The number of a field's dictionary, if it has one, and those below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DictionaryIds {
    /// The number of its own.
    pub id: Option<i64>,
    /// Those of the fields below it, or below the values of its dictionary.
    pub below: Vec<DictionaryIds>,
}

impl DictionaryIds {
    /// Those of the fields of a schema.
    ///
    /// # Errors
    /// `Data` if the schema has other fields, or numbers whose lowest byte does not come first.
    pub fn of(fields: &[ArrowField], schema: FlatTable<'_>) -> Result<Vec<Self>> {
        if schema.short(0)? != 0 {
            return Err(Error::data(
                "its numbers have their highest byte first: write it on another machine",
            ));
        }
        all(fields, &schema.tables(1)?)
    }

    fn of_field(field: &ArrowField, stated: FlatTable<'_>) -> Result<Self> {
        let dictionary = stated.table(4)?;
        let values = match (&dictionary, &field.dictionary) {
            (Some(_), Some(values)) => values,
            (None, None) => field,
            _ => return Err(other()),
        };
        let id = dictionary.map(|dictionary| dictionary.long(0)).transpose()?;
        Ok(Self { id, below: all(&values.children, &stated.tables(5)?)? })
    }
}

fn all(fields: &[ArrowField], stated: &[FlatTable<'_>]) -> Result<Vec<DictionaryIds>> {
    if fields.len() != stated.len() {
        return Err(other());
    }
    fields.iter().zip(stated).map(|(field, stated)| DictionaryIds::of_field(field, *stated)).collect()
}

fn other() -> Error {
    Error::data("its columns differ from those of the first file")
}
