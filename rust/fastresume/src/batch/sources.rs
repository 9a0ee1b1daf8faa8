//! The sources of a reader: files, and what is read of them. Row groups, files and rows are numbered over all sources.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::format::page::kept_pages::most_kept;
use crate::projection::layout::{Field, Layout};
use crate::projection::memory_estimate::held_row_bytes;

/// Files, and which of their columns go where.
#[derive(Debug, Clone)]
pub struct FileSource {
    /// The files.
    pub manifest: Arc<Manifest>,
    /// What is read of them.
    pub layout: Layout,
}

/// The sources of a reader, in their order; a dataset is one.
#[derive(Debug)]
pub struct Sources {
    each: Vec<FileSource>,
    /// Of each of them, where its fields stand among those of the first one.
    places: Vec<Vec<usize>>,
    /// What lies before each of them.
    before: Vec<Before>,
    /// Of each of them, and each of its schemas, what a row takes until it is decoded, if its rows are held.
    held_row_bytes: Vec<Vec<u64>>,
}

/// How many row groups, files and rows the sources before one have.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    groups: usize,
    files: usize,
    rows: u64,
}

/// A row group of a source.
#[derive(Debug, Clone)]
pub struct GroupOf<'a> {
    /// The source.
    pub source: &'a FileSource,
    /// Where the source's fields stand in a batch.
    pub places: &'a [usize],
    /// Its file, counted over all sources.
    pub file: usize,
    /// The schema of the file, among those of its source.
    pub schema: usize,
    /// Its index in the file.
    pub index: usize,
    /// Its rows, counted over all sources.
    pub rows: Range<u64>,
    /// How many of them are of the sources before its own.
    pub before: u64,
    /// The path of the file.
    pub path: &'a Path,
    /// What a row takes in memory until it is decoded, if it lies in no file.
    pub held_row_bytes: u64,
}

impl GroupOf<'_> {
    /// An error of it, with row group and file.
    #[must_use]
    pub fn named(&self, error: Error) -> Error {
        error.in_row_group(self.index).in_file(self.path)
    }
}

impl Sources {
    /// Several sources, whose tensors are the same, in whatever order.
    ///
    /// # Errors
    /// `Argument` if there is none, or the tensors differ.
    pub fn new(mut each: Vec<FileSource>) -> Result<Self> {
        let Some(first) = each.first() else {
            return Err(Error::Argument("a reader has at least one source".into()));
        };
        let mut places = Vec::with_capacity(each.len());
        for source in &each {
            places.push(places_in(&first.layout, &source.layout).ok_or_else(|| {
                Error::Argument(format!(
                    "the tensors of two sources differ in name, type or shape: {} and {}",
                    names(&first.layout),
                    names(&source.layout)
                ))
            })?);
        }
        // Bundles are taken apart as the first source has them.
        let bundles = |of: usize| {
            let bundled = |bundle: &Vec<usize>| bundle.iter().map(|&index| places[of][index]).collect();
            each[of].layout.bundles().iter().map(bundled).collect::<Vec<Vec<usize>>>()
        };
        let mut first_bundles = bundles(0);
        first_bundles.sort_unstable();
        let is_other = |of: usize| {
            let mut own = bundles(of);
            own.sort_unstable();
            own != first_bundles
        };
        if (1..each.len()).any(is_other) {
            for source in &mut each {
                source.layout.unbundle();
            }
        }
        let mut sum = Before::default();
        let before = each.iter().map(|FileSource { manifest, .. }| {
            let before = sum;
            sum.groups += manifest.num_groups();
            sum.files += manifest.files().len();
            sum.rows = sum.rows.saturating_add(manifest.num_rows());
            before
        });
        let before = before.collect();
        let held_row_bytes = each.iter().map(held).collect();
        Ok(Self { each, places, before, held_row_bytes })
    }

    /// One source.
    #[must_use]
    pub fn one(manifest: Arc<Manifest>, layout: Layout) -> Self {
        let places = vec![(0..layout.fields().len()).collect()];
        let each = vec![FileSource { manifest, layout }];
        let held_row_bytes = each.iter().map(held).collect();
        Self { each, places, before: vec![Before::default()], held_row_bytes }
    }

    /// The sources.
    #[must_use]
    pub fn each(&self) -> &[FileSource] {
        &self.each
    }

    /// The layout of the first source: the tensors of all are the same.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.each[0].layout
    }

    /// A row group, counted over all sources.
    #[must_use]
    pub fn group(&self, group: usize) -> GroupOf<'_> {
        let number = self.holding(|before| before.groups <= group);
        let (source, before) = (&self.each[number], self.before[number]);
        let manifest = &source.manifest;
        let place = manifest.place_of(group - before.groups);
        let rows = manifest.group_rows(group - before.groups);
        let schema = manifest.schema_of(place.file);
        GroupOf {
            source,
            places: &self.places[number],
            file: before.files + place.file,
            schema,
            index: place.index,
            rows: before.rows + rows.start..before.rows + rows.end,
            before: before.rows,
            path: &manifest.files()[place.file].path,
            held_row_bytes: self.held_row_bytes[number].get(schema).copied().unwrap_or(0),
        }
    }

    /// The row group that holds a row; both are counted over all sources.
    #[must_use]
    pub fn group_of(&self, row: u64) -> usize {
        let (source, row) = self.row(row);
        self.number_of(source, self.each[source].manifest.group_of(row))
    }

    /// The number, counted over all sources, of a source's row group.
    #[must_use]
    pub fn number_of(&self, source: usize, group: usize) -> usize {
        self.before[source].groups + group
    }

    /// The rows of all sources before one.
    #[must_use]
    pub fn rows_before(&self, source: usize) -> u64 {
        self.before[source].rows
    }

    /// The rows of all sources.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        let last = self.each.last().map_or(0, |source| source.manifest.num_rows());
        self.before.last().map_or(0, |before| before.rows).saturating_add(last)
    }

    /// The number of files of all sources before one.
    #[must_use]
    pub fn files_before(&self, source: usize) -> usize {
        self.before[source].files
    }

    /// The source of a file, counted over all sources, and its number there.
    #[must_use]
    pub fn file(&self, file: usize) -> (&FileSource, usize) {
        let number = self.holding(|before| before.files <= file);
        (&self.each[number], file - self.before[number].files)
    }

    /// The number of a source and, of a row counted over all sources, the row in it.
    #[must_use]
    pub fn row(&self, row: u64) -> (usize, u64) {
        let number = self.before.partition_point(|before| before.rows <= row).max(1) - 1;
        (number, row - self.before[number].rows)
    }

    /// The number of the last source that begins there; those without row groups or files begin where the next one does.
    fn holding(&self, is_before: impl Fn(&Before) -> bool) -> usize {
        self.before.partition_point(is_before).max(1) - 1
    }

    /// The number of files.
    #[must_use]
    pub fn num_files(&self) -> usize {
        self.each.iter().map(|source| source.manifest.files().len()).sum()
    }

    /// Whether some files are objects of a store.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        self.each.iter().any(|source| source.manifest.has_objects())
    }

    /// Whether a row group is waited for: an object's, or one of a source of rows that is asked.
    #[must_use]
    pub fn is_far(&self, group: usize) -> bool {
        let (source, file) = self.file(self.group(group).file);
        source.manifest.files()[file].object.is_some() || source.manifest.awaits_rows()
    }

    /// Whether some are.
    #[must_use]
    pub fn are_far(&self) -> bool {
        self.each.iter().any(|source| source.manifest.has_objects() || source.manifest.awaits_rows())
    }

    /// How many bytes of row groups are held until they are decoded: one bound for all sources; none if nothing is.
    #[must_use]
    pub fn held_bytes(&self) -> Option<u64> {
        let holds = |manifest: &Manifest| manifest.has_objects() || manifest.holds_rows();
        let each = self.each.iter().map(|source| &source.manifest).filter(|manifest| holds(manifest));
        each.map(|manifest| manifest.read_bytes()).max()
    }

    /// How many bytes may be on their way from stores: one bound for all sources.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        let with_objects = self.each.iter().filter(|source| source.manifest.has_objects());
        with_objects.map(|source| source.manifest.read_bytes()).max().unwrap_or(0)
    }

    /// How many bytes of pages are kept, where so many streams are each in a row group of its own.
    #[must_use]
    pub fn most_kept(&self, streams: u64) -> u64 {
        let bytes = |source: &FileSource| {
            source.manifest.largest_group().saturating_mul(source.layout.row_bytes() as u64)
        };
        most_kept(self.each.iter().map(bytes).max().unwrap_or(0), streams)
    }
}

/// What a row of each schema of a source takes until it is decoded; none if none is held.
fn held(source: &FileSource) -> Vec<u64> {
    let FileSource { manifest, layout } = source;
    let schemas = if manifest.holds_rows() { 0..manifest.schemas().count() } else { 0..0 };
    schemas.map(|schema| held_row_bytes(manifest, layout, schema)).collect()
}

/// Where the fields of a layout stand among those of the first one; `None` if they differ.
fn places_in(first: &Layout, other: &Layout) -> Option<Vec<usize>> {
    let is_alike = |one: &Field, other: &Field| {
        let sizes = |of: &Field| (of.dtype, of.row_bytes(), of.mask_bytes(), of.inner_levels());
        let rules = |of: &Field| (of.kind.is_jagged(), of.is_masked(), of.marks_elements());
        sizes(one) == sizes(other) && rules(one) == rules(other)
    };
    let place = |field: &Field| {
        let index = first.fields().iter().position(|own| own.name == field.name)?;
        is_alike(&first.fields()[index], field).then_some(index)
    };
    if first.fields().len() != other.fields().len() {
        return None;
    }
    other.fields().iter().map(place).collect()
}

fn names(layout: &Layout) -> String {
    layout.fields().iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_files::Made;

    #[test]
    fn row_groups_files_and_rows_are_numbered_over_all_sources() {
        let made: Vec<Made> = (0..3).map(|_| Made::new(&[20, 20, 10])).collect();
        let each = made.iter().map(|made: &Made| FileSource {
            manifest: Arc::clone(&made.manifest),
            layout: made.layout.clone(),
        });
        let sources = Sources::new(each.collect()).unwrap();
        let groups = made[0].manifest.num_groups();
        for (source, made) in made.iter().enumerate() {
            assert_eq!(sources.rows_before(source), 50 * source as u64);
            for local in 0..groups {
                let group = sources.group(sources.number_of(source, local));
                let (manifest, before) = (&made.manifest, sources.rows_before(source));
                let rows = manifest.group_rows(local);
                assert_eq!(group.rows, before + rows.start..before + rows.end);
                assert_eq!(group.path, manifest.files()[manifest.place_of(local).file].path);
                assert_eq!(sources.row(group.rows.start), (source, rows.start));
                assert!(Arc::ptr_eq(&sources.file(group.file).0.manifest, manifest));
            }
        }
        assert!(Sources::new(Vec::new()).is_err());
    }
}
