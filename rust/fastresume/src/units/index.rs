//! The index of units: of each row group the stretches that its selected rows are divided into, by what these cost.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::dataset::manifest::Manifest;
use crate::decode::open_file::OpenFile;
use crate::decode::survey::BadRows;
use crate::error::{Error, Result, check};
use crate::format::page::reader::Buffers;
use crate::intervals::set::Intervals;
use crate::memory::vectors::{append, push};
use crate::order::selection::Selection;
use crate::parallel;
use crate::source::local;
use crate::units::index_cache::{IndexCache, IndexKey};
use crate::units::row_costs::{AskedCosts, CostSource, RowCosts};
use crate::units::rule::Rule;
use crate::units::sequence_table::ANCHORS;
use crate::units::stretches::{OfGroups, Stretch};

/// The most row groups of one file that a thread takes at a time: the file is opened once for them.
const GROUPS_AT_A_TIME: usize = 16;

/// A thread takes about so many times row groups, so that none is left with the last ones.
const TURNS: usize = 8;

/// Threads that ask the system for the files' status, or read objects: they wait more than they compute.
const WAITING_THREADS: usize = 16;

/// So many files each of them takes at a time.
const FILES_AT_A_TIME: usize = 16;

/// The rows of files that are made units.
#[derive(Clone, Copy)]
pub struct UnitRows<'a> {
    /// The files.
    pub manifest: &'a Manifest,
    /// Which of their rows are selected.
    pub selection: &'a Selection,
    /// What tells their costs.
    pub source: &'a CostSource,
}

/// How an index is made.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// What becomes of costs.
    pub rule: Rule,
    /// At most so many threads read.
    pub threads: usize,
    /// So many rows that can't be read may be left out; `None` if one is an error.
    pub most_bad: Option<u64>,
    /// The manifest's cache, beside which it is kept.
    pub cache: Option<&'a Path>,
}

/// How far it is.
#[derive(Debug, Default)]
pub struct Progress {
    /// Row groups that were read.
    pub done: AtomicUsize,
    /// Those that are to be read.
    pub total: AtomicUsize,
}

/// What was made.
#[derive(Debug)]
pub struct Index {
    /// The stretches of each row group of each file.
    pub files: Vec<OfGroups>,
    /// Rows that can't be read, among them some that are not selected, and why. Where they are more than may be left out, not
    /// all files were read.
    pub bad: Vec<(Range<u64>, String)>,
    /// How many files were read; the cache knew the others.
    pub read: usize,
    /// Why it can't be kept, if so.
    pub kept: Result<()>,
}

/// Row groups of one file.
type IndexPart = (usize, Range<usize>);

impl UnitRows<'_> {
    /// The index of all files. Files that the cache knows are not read.
    ///
    /// # Errors
    /// As for [`CostSource::read`], in the order of the files; `Data` if a row costs more than a bin may, where that is an error.
    pub fn index(self, making: Making<'_>, progress: &Progress, stop: &AtomicBool) -> Result<Index> {
        let Making { rule, threads, most_bad, cache } = making;
        let (manifest, count) = (self.manifest, self.manifest.files().len());
        let threads = self.threads(threads);
        let cache = match cache {
            Some(cache) => Some(IndexCache::beside(cache, &manifest.file_system, stop)?),
            None => None,
        };
        let keys = match &cache {
            Some(_) => self.keys(rule, stop)?,
            None => vec![None; count],
        };
        let mut files: Vec<Option<OfGroups>> = match &cache {
            Some(cache) => {
                let known = cache.known();
                let found = keys.iter().enumerate().map(|(file, key)| {
                    let groups = *known.get(key.as_ref()?)?;
                    self.are_of(groups, file).then(|| groups.clone())
                });
                found.collect()
            }
            None => vec![None; count],
        };
        let starts: Vec<usize> = manifest.file_groups().collect();
        let unknown: Vec<usize> = (0..count).filter(|&file| files[file].is_none()).collect();
        let parts = self.parts(unknown.iter().map(|&file| (file, starts[file]..starts[file + 1])), threads);
        let left_out = AtomicU64::new(0);
        progress.total.store(parts.iter().map(|(_, groups)| groups.len()).sum(), Ordering::Relaxed);
        let found = parallel::each(parts.len(), 1, threads, stop, |number| {
            let (file, groups) = &parts[number];
            if left_out.load(Ordering::Relaxed) > most_bad.unwrap_or(u64::MAX) {
                return Ok(None);
            }
            let (mut made, mut bad) = (Vec::new(), Vec::new());
            self.each_group(*file, groups.clone(), most_bad.is_some(), stop, |group, costs| {
                progress.done.fetch_add(1, Ordering::Relaxed);
                let rows = manifest.group_rows(group);
                let chosen = self.selection.ordinals(rows.clone());
                left_out.fetch_add(chosen.end - chosen.start - costs.rows.count(), Ordering::Relaxed);
                for BadRows { rows: of, cause } in &costs.bad {
                    let own = rows.start + of.start as u64..rows.start + of.end as u64;
                    push(&mut bad, (own, cause.to_string()))?;
                }
                push(&mut made, (group, rule.stretches(&costs)?))
            })?;
            Ok(Some((made, bad)))
        })?;
        for &file in &unknown {
            files[file] = Some(vec![Vec::new(); starts[file + 1] - starts[file]]);
        }
        let (mut bad, mut damaged) = (Vec::new(), BTreeSet::new());
        for ((file, _), found) in parts.iter().zip(found) {
            let Some((made, lost)) = found else {
                damaged.insert(*file);
                continue;
            };
            if !lost.is_empty() {
                damaged.insert(*file);
            }
            bad.extend(lost);
            for (group, stretches) in made {
                if let Some(groups) = &mut files[*file] {
                    groups[group - starts[*file]] = stretches;
                }
            }
        }
        let files: Vec<OfGroups> = files.into_iter().map(Option::unwrap_or_default).collect();
        let kept = match cache {
            None => Ok(()),
            Some(cache) => {
                let sound = unknown.iter().filter(|file| !damaged.contains(file));
                let new = sound.filter_map(|&file| Some((keys[file]?, files[file].clone()))).collect();
                let present: BTreeSet<IndexKey> = keys.iter().flatten().copied().collect();
                let used = (0..count).filter(|file| unknown.binary_search(file).is_err());
                let used = used.filter_map(|file| keys[file]).collect();
                cache.keep(new, (&used, &present), (&manifest.file_system, stop))
            }
        };
        let kept = match kept {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            kept => kept,
        };
        Ok(Index { files, bad, read: unknown.len(), kept })
    }

    /// The costs of the selected rows of row groups, in order.
    ///
    /// # Errors
    /// As for [`CostSource::read`].
    pub fn costs(self, groups: Range<usize>, threads: usize, stop: &AtomicBool) -> Result<Vec<u64>> {
        let (starts, threads): (Vec<usize>, _) =
            (self.manifest.file_groups().collect(), self.threads(threads));
        let files = (0..self.manifest.files().len())
            .map(|file| (file, starts[file].max(groups.start)..starts[file + 1].min(groups.end)));
        let parts = self.parts(files.filter(|(_, groups)| !groups.is_empty()), threads);
        let found = parallel::each(parts.len(), 1, threads, stop, |number| {
            let (file, groups) = &parts[number];
            let mut all = Vec::new();
            self.each_group(*file, groups.clone(), false, stop, |_, costs| append(&mut all, costs.costs))?;
            Ok(all)
        })?;
        let mut all = Vec::new();
        found.into_iter().try_for_each(|some| append(&mut all, some))?;
        Ok(all)
    }

    /// How many threads read, where so many may compute.
    fn threads(self, threads: usize) -> usize {
        if self.manifest.has_objects() { threads.max(WAITING_THREADS) } else { threads }
    }

    /// What threads take at a time: row groups of a file that have selected rows.
    fn parts(self, files: impl Iterator<Item = IndexPart>, threads: usize) -> Vec<IndexPart> {
        let files: Vec<IndexPart> = files.collect();
        let all: usize = files.iter().map(|(_, groups)| groups.len()).sum();
        let some = (all / (threads.max(1) * TURNS)).clamp(1, GROUPS_AT_A_TIME);
        let starts = self.selection.group_starts();
        let has_rows = |group: usize| starts[group] < starts[group + 1];
        let mut parts = Vec::new();
        for (file, groups) in files {
            let firsts = groups.clone().step_by(some).map(|first| first..groups.end.min(first + some));
            parts.extend(firsts.filter(|part| part.clone().any(has_rows)).map(|part| (file, part)));
        }
        parts
    }

    /// Reads the costs of the selected rows of row groups of one file, one after another.
    fn each_group(
        self,
        file: usize,
        groups: Range<usize>,
        masks_damage: bool,
        stop: &AtomicBool,
        mut take: impl FnMut(usize, RowCosts) -> Result<()>,
    ) -> Result<()> {
        let Self { manifest, selection, source } = self;
        let path = &manifest.files()[file].path;
        let in_file = |error: Error| error.in_file(path);
        let columns = source.columns(manifest, file)?;
        let opened = OpenFile::open(manifest, file, columns.iter().copied());
        let opened = match opened {
            Err(error) if !(masks_damage && error.is_damage()) => return Err(in_file(error)),
            opened => opened,
        };
        let mut buffers = Buffers::default();
        let starts = selection.group_starts();
        for group in groups.filter(|&group| starts[group] < starts[group + 1]) {
            check(stop)?;
            let rows = manifest.group_rows(group);
            let chosen = selection.rows(starts[group]..starts[group + 1]);
            let own = chosen.map(|run| run.start - rows.start..run.end - rows.start);
            let asked = AskedCosts {
                file: opened.as_ref(),
                place: manifest.place_of(group),
                group_rows: rows.end - rows.start,
                rows: Intervals::try_of_sorted(own)?,
                masks_damage,
            };
            let mut found = source.read(&columns, &asked, &mut buffers, stop).map_err(in_file)?;
            for bad in &mut found.bad {
                bad.cause = in_file(bad.cause.clone());
            }
            let index = asked.place.index;
            let in_column = |error: Error| match columns.first() {
                Some(column) => in_file(error.in_column(&column.name).in_row_group(index)),
                None => error,
            };
            take(group, found).map_err(in_column)?;
        }
        opened.map_or(Ok(()), |file| file.check_unchanged())
    }

    /// What entries of the cache are of, for each file that the system knows.
    fn keys(self, rule: Rule, stop: &AtomicBool) -> Result<Vec<Option<IndexKey>>> {
        let Self { manifest, selection, source } = self;
        parallel::each(manifest.files().len(), FILES_AT_A_TIME, WAITING_THREADS, stop, |file| {
            let of = &manifest.files()[file];
            if manifest.rows.is_some() {
                return Ok(None);
            }
            let version = match of.known_version() {
                Some(version) => version,
                None => match local::status(&of.path) {
                    Ok(status) => status.version(),
                    Err(_) => return Ok(None),
                },
            };
            let mut how = blake3::Hasher::new();
            for column in source.columns(manifest, file)? {
                let value = column.given.map(|_| manifest.value(file, &column.name));
                how.update(format!("{column:?} {value:?};").as_bytes());
            }
            how.update(format!("{} {ANCHORS:?} {:?};", rule.of_costs(), manifest.page_checks()).as_bytes());
            let rows = manifest.file_rows(file);
            let ordinals = selection.ordinals(rows.clone());
            if ordinals.end - ordinals.start < rows.end - rows.start {
                for run in selection.rows(ordinals) {
                    how.update(&(run.start - rows.start).to_le_bytes());
                    how.update(&(run.end - rows.start).to_le_bytes());
                }
            }
            let parts: [&[u8]; 3] = [&of.size.to_le_bytes(), version.as_bytes(), &of.footer_hash];
            Ok(Some(IndexKey::new(&of.path, &parts, &how)))
        })
    }

    /// Whether stretches are of all selected rows of a file.
    fn are_of(self, groups: &OfGroups, file: usize) -> bool {
        let starts: Vec<u64> = {
            let bounds: Vec<usize> = self.manifest.file_groups().skip(file).take(2).collect();
            let [first, end] = bounds[..] else { return false };
            self.selection.group_starts()[first..=end].to_vec()
        };
        let rows = |group: &Vec<Stretch>| group.iter().fold(0_u64, |sum, of| sum.saturating_add(of.rows));
        groups.len() + 1 == starts.len()
            && groups.iter().zip(starts.windows(2)).all(|(group, of)| rows(group) == of[1] - of[0])
    }
}
