//! The same files in another order, and whether a state's files are the first ones of it.

use std::path::{Path, PathBuf};

use crate::dataset::fingerprint::{Printing, fingerprint};
use crate::dataset::manifest::{DataFile, Manifest};
use crate::error::{Error, Result};
use crate::memory::vectors::with_room;

impl Manifest {
    /// The fingerprint that some of these files have by themselves, in this order.
    #[must_use]
    pub fn fingerprint_of(&self, files: impl Iterator<Item = usize> + Clone) -> String {
        fingerprint(files.map(|file| self.files[file].printed()))
    }

    /// Whether the first files in an order, or all of them, have a fingerprint by themselves.
    ///
    /// # Errors
    /// `Argument` if the order has not each file once.
    pub fn begins_with(&self, order: &[usize], fingerprint: &str) -> Result<bool> {
        self.check_order(order)?;
        let printed = |file: usize| self.files[file].printed();
        let mut root: Option<PathBuf> = None;
        let mut printing = Printing::below(Path::new(""));
        for (count, &file) in order.iter().enumerate() {
            let parent = printed(file).path.parent().unwrap_or(Path::new(""));
            let mut above = root.clone().unwrap_or_else(|| parent.to_owned());
            while !parent.starts_with(&above) && above.pop() {}
            if root.as_ref() == Some(&above) {
                printing.add(&printed(file));
            } else {
                // Paths count from another directory, all those before as well.
                printing = Printing::below(&above);
                order[..=count].iter().for_each(|&file| printing.add(&printed(file)));
                root = Some(above);
            }
            if printing.text() == fingerprint {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same files in another order.
    ///
    /// # Errors
    /// `Argument` if the order has not each file once.
    pub fn reordered(&self, order: &[usize]) -> Result<Self> {
        self.check_order(order)?;
        let (mut files, mut group_starts) = (with_room(order.len())?, with_room(self.group_starts.len())?);
        let mut places = vec![0; order.len()];
        group_starts.push(0);
        let mut rows = 0;
        for (place, &number) in order.iter().enumerate() {
            places[number] = place;
            let file = &self.files[number];
            let end = self.files.get(number + 1).map_or(self.num_groups(), |next| next.first_group);
            let mut moved = file.clone();
            moved.first_group = group_starts.len() - 1;
            files.push(moved);
            for group in file.first_group..end {
                rows += self.group_starts[group + 1] - self.group_starts[group];
                group_starts.push(rows);
            }
        }
        // Schemas are numbered as files have them.
        let mut numbers: Vec<Option<usize>> = vec![None; self.schemas.len()];
        let mut schemas = Vec::with_capacity(self.schemas.len());
        for (place, file) in files.iter_mut().enumerate() {
            file.schema = *numbers[file.schema].get_or_insert_with(|| {
                let mut schema = self.schemas[file.schema].clone();
                schema.first_file = place;
                schema.nulls.values_mut().for_each(|(_, first)| *first = places[*first]);
                schema.bounds.values_mut().for_each(|(_, files)| *files = files.map(|file| places[file]));
                schemas.push(schema);
                schemas.len() - 1
            });
        }
        let fingerprint = fingerprint(files.iter().map(DataFile::printed));
        let table_values = self.table_values.as_ref().map(|table_values| table_values.reordered(order));
        let mut found = self.clone();
        (found.files, found.schemas, found.group_starts) = (files, schemas, group_starts);
        (found.fingerprint, found.table_values) = (fingerprint, table_values);
        Ok(found)
    }

    fn check_order(&self, order: &[usize]) -> Result<()> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted.into_iter().eq(0..self.files().len()) {
            return Ok(());
        }
        Err(Error::Argument(format!("an order of {} files has not each of them once", self.files().len())))
    }
}
