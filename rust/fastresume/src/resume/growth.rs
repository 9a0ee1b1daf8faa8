//! States and files that are not those of the state: whether these are the same and some more, and how they differ.

use std::ops::Range;
use std::sync::Arc;

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, plural, shown};
use crate::intervals::set::Intervals;
use crate::order::pass_order::OrderKind;
use crate::order::selection::Selection;
use crate::resume::cursor::{Cursor, Generation, Identity};
use crate::resume::named_mixture::Grows;
use crate::resume::units::Units;

/// So many ways in which files may have come between others are looked at.
const MOST_GUESSES: usize = 64;

/// And at most about so many files are hashed for it.
const MOST_HASHED: usize = 1 << 22;

/// So many files are named.
const MOST_NAMED: usize = 3;

/// What a dataset reads, as a state is compared with it.
#[derive(Clone, Copy)]
pub struct Read<'a> {
    /// The files.
    pub manifest: &'a Manifest,
    /// The rows that are selected of them.
    pub selection: &'a Selection,
    /// What is counted in the place of rows.
    pub units: Option<&'a Units>,
}

impl Read<'_> {
    /// What a state of all of it says of it.
    #[must_use]
    pub fn identity(&self, order: OrderKind) -> Identity {
        let rows = Identity::of(self.manifest, self.selection, order);
        match self.units {
            Some(units) => Identity {
                num_rows: units.selection().count(),
                selection: Some(units.hash(self.selection)),
                ..rows
            },
            None => rows,
        }
    }

    /// The first files whose rows, of those that are selected, or whose units are so many: of files without them, any
    /// number may be among them.
    fn files_of(&self, rows: u64) -> Range<usize> {
        let count = self.manifest.files().len();
        let before = |files: usize| {
            if let Some(units) = self.units {
                return units.of_files(files);
            }
            let end = if files == 0 { 0 } else { self.manifest.file_rows(files - 1).end };
            self.selection.ordinals(0..end).end
        };
        let (mut first, mut end) = (0, count + 1);
        while first < end {
            let middle = usize::midpoint(first, end);
            if before(middle) < rows { first = middle + 1 } else { end = middle }
        }
        let behind = (first..=count).take_while(|&files| before(files) == rows).last();
        first..behind.map_or(first, |last| last + 1)
    }

    /// The identity that the first files have by themselves.
    fn identity_of(&self, files: usize, order: OrderKind) -> Result<Identity> {
        let end = self.manifest.file_rows(files - 1).end;
        let starts = self.manifest.group_starts();
        let starts = &starts[..=starts.partition_point(|&start| start < end)];
        let selection = match self.selection.intervals() {
            None => Selection::everything(starts),
            Some(rows) => Selection::new(starts, rows.intersection(&Intervals::full(end))?)?,
        };
        let (num_rows, hash) = match self.units {
            Some(units) => (units.of_files(files), Some(units.hash(&selection))),
            None => (selection.count(), selection.hash().map(str::to_owned)),
        };
        let fingerprint = self.manifest.fingerprint_of(0..files);
        Ok(Identity { fingerprint, num_rows, selection: hash, order })
    }

    /// How many of the first files a state was made of.
    fn beginning(&self, of: &Identity) -> Result<Option<usize>> {
        for files in self.files_of(of.num_rows).filter(|&files| files > 0) {
            if self.identity_of(files, of.order.clone())? == *of {
                return Ok(Some(files));
            }
        }
        Ok(None)
    }

    /// Files that are new where those of a state stand before and behind them: some that stand together, and any number
    /// at the end.
    fn between(&self, of: &Identity) -> Option<(Range<usize>, Range<usize>)> {
        if self.selection.hash().is_some() || of.selection.is_some() {
            return None;
        }
        let count = self.manifest.files().len();
        let mut hashed = 0;
        for files in (1..=count).rev() {
            let extra = self.manifest.file_rows(files - 1).end.checked_sub(of.num_rows)?;
            if let Some(new) = self.among_first(files, extra, of, &mut hashed) {
                return Some((new, files..count));
            }
            if hashed >= MOST_HASHED {
                break;
            }
        }
        None
    }

    /// Some of the first files, which stand together and have so many rows, without which these are those of a state.
    fn among_first(
        &self,
        files: usize,
        extra: u64,
        of: &Identity,
        hashed: &mut usize,
    ) -> Option<Range<usize>> {
        let (mut first, mut end, mut guesses) = (0, 0, 0);
        while first < files && guesses < MOST_GUESSES {
            let start = self.manifest.file_rows(first).start;
            while end < files && (end <= first || self.manifest.file_rows(end - 1).end - start < extra) {
                end += 1;
            }
            // Of files without rows behind them, any number may have come with them.
            for last in end..=files {
                let is_as_many = last > first && self.manifest.file_rows(last - 1).end - start == extra;
                if !is_as_many || guesses >= MOST_GUESSES {
                    break;
                }
                guesses += 1;
                *hashed += files;
                if self.manifest.fingerprint_of((0..first).chain(last..files)) == of.fingerprint {
                    return Some(first..last);
                }
            }
            first += 1;
        }
        None
    }

    /// So many first files are those of a state, of which other rows are selected.
    fn selected_otherwise(&self, of: &Identity) -> Option<usize> {
        let counts = (1..=self.manifest.files().len()).rev().take(MOST_GUESSES);
        counts.into_iter().find(|&files| self.manifest.fingerprint_of(0..files) == of.fingerprint)
    }

    /// Whether the files are those of a state, which had them sorted by their paths.
    fn were_sorted(&self, of: &Identity) -> bool {
        let mut sorted: Vec<usize> = (0..self.manifest.files().len()).collect();
        sorted.sort_by_key(|&file| self.manifest.files()[file].path.as_os_str());
        self.manifest.fingerprint_of(sorted.into_iter()) == of.fingerprint
    }

    /// Some files by their names.
    fn named(&self, files: Range<usize>) -> String {
        let more = files.len().saturating_sub(MOST_NAMED);
        let each =
            files.take(MOST_NAMED).map(|file| format!("'{}'", shown(&self.manifest.files()[file].path)));
        let named = each.collect::<Vec<_>>().join(", ");
        if more == 0 { named } else { format!("{named} and {more} more") }
    }

    /// Which files were added since a state, and what to write; nothing if others differ, too.
    fn growth(&self, of: &Identity) -> Result<Option<String>> {
        let count = self.manifest.files().len();
        if let Some(files) = self.beginning(of)? {
            return Ok(Some(format!(
                "{} than then, after those of the state: {}. ParquetDataset(..., on_change='append') resumes with them",
                files_more(count - files),
                self.named(files..count)
            )));
        }
        if let Some((new, behind)) = self.between(of) {
            let others = if behind.is_empty() {
                String::new()
            } else {
                format!(", and {} after them: {}", behind.len(), self.named(behind.clone()))
            };
            return Ok(Some(format!(
                "{} than then, between those of the state: {}{others}. List what is new after the others, as \
                 ParquetDataset([[old...], [new...]], on_change='append')",
                files_more(new.len() + behind.len()),
                self.named(new)
            )));
        }
        Ok(None)
    }

    /// In what the files differ from a state's, where more happened than that some were added.
    fn difference(&self, of: &Identity, own: &Identity) -> String {
        let count = self.manifest.files().len();
        if self.were_sorted(of) {
            return "they are the same files in another order: the state had them sorted by their paths"
                .into();
        }
        if let Some(files) = self.selected_otherwise(of) {
            return format!(
                "the first {files} of {count} files are those of the state, and other rows are selected of them \
                 than then: name the same rows=, filter= and unit="
            );
        }
        let counted = if self.units.is_some() { "units" } else { "rows" };
        let rows = match of.num_rows.cmp(&own.num_rows) {
            // A state does not say what it counts: rows, sequences or bins.
            _ if of.selection.is_some() || own.selection.is_some() => {
                format!("{} selected {counted}", own.num_rows)
            }
            std::cmp::Ordering::Less => format!("{} {counted} more than then", own.num_rows - of.num_rows),
            std::cmp::Ordering::Equal => format!("as many {counted} as then"),
            std::cmp::Ordering::Greater => {
                format!("{} {counted} fewer than then", of.num_rows - own.num_rows)
            }
        };
        format!(
            "this dataset ({}) has {rows}, and other names, sizes or footers of files than the state: files are \
             gone, were rewritten, or are those of something else. A state knows its files by one hash, and can't name these",
            plural(count as u64, "file")
        )
    }
}

/// The files of a source of a mixture, and its selected rows.
#[derive(Debug, Clone)]
pub struct SourceFiles {
    /// The files.
    pub manifest: Arc<Manifest>,
    /// The rows that are selected of them.
    pub selection: Arc<Selection>,
    /// What is counted in the place of rows.
    pub units: Option<Arc<Units>>,
}

impl Grows for SourceFiles {
    fn began_with(&self, hash: &str, rows: u64) -> Result<bool> {
        let (manifest, selection) = (&self.manifest, &self.selection);
        let read = Read { manifest, selection, units: self.units.as_deref() };
        for files in read.files_of(rows).filter(|&files| files > 0) {
            if read.identity_of(files, OrderKind::Sequential)?.short_hash() == hash {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn files_more(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("there {verb} {} more", plural(count as u64, "file"))
}

impl Cursor {
    /// The same place in files that are those of the state, or these and others behind them if `appends` allows it:
    /// then what was left of the pass is left, and the new rows come behind it. A state between two passes goes back
    /// into the pass that was done, of which the new rows are left.
    ///
    /// The order of the pass stays; that of `own` is not looked at.
    ///
    /// # Errors
    /// `State`, which says in what the files differ.
    pub fn fitted(&self, read: Read<'_>, appends: bool) -> Result<Self> {
        let order = self.identity.order.clone();
        let own = read.identity(order);
        if self.identity.as_ref() == &own {
            return Ok(self.clone());
        }
        let is_of_beginning = appends && read.beginning(&self.identity)?.is_some();
        if !is_of_beginning {
            if self.identity.fingerprint == own.fingerprint {
                return Ok(self.clone());
            }
            let (what, difference) = match read.growth(&self.identity)? {
                Some(growth) => ("growth", growth),
                None => ("dataset", read.difference(&self.identity, &own)),
            };
            let found = self.identity.name();
            let message =
                format!("the state is of another dataset: {found}, this one is {}: {difference}", own.name());
            return Err(Error::Foreign { what, message });
        }
        let old_rows = self.identity.num_rows;
        let mut grown = Self { identity: Arc::new(own), ..self.clone() };
        if grown.identity.num_rows == old_rows {
            return Ok(grown);
        }
        let is_untouched = self.cuts.is_empty() && self.consumed.intervals.is_empty();
        if is_untouched && self.epoch == 0 {
            return Ok(grown);
        }
        if is_untouched {
            grown = Self { earlier_batches: self.earlier_batches, ..grown.at_epoch(self.epoch - 1) };
            grown.consumed = Arc::new(Intervals::full(old_rows).into());
        }
        grown.generations.push(Generation { end: old_rows, cuts: grown.cuts.len() });
        Ok(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resume::lanes::Cut;

    fn start(num_rows: u64) -> Cursor {
        let fingerprint = "00112233445566778899aabbccddeeff".to_owned();
        Cursor::start(Identity { fingerprint, num_rows, selection: None, order: OrderKind::Sequential })
    }

    #[test]
    fn what_came_after_cuts_is_left_behind_what_was_left() {
        let cut = Cut::new(2, 1, 5).unwrap();
        let mut cursor = start(100).with_cut(cut, 3);
        let grown = Identity { num_rows: 130, ..cursor.identity().clone() };
        cursor.identity = Arc::new(grown);
        cursor.generations.push(Generation { end: 100, cuts: 1 });
        assert_eq!(cursor.remaining().unwrap().ranges(), &[15..50, 65..130]);
        // The same numbers cut what is left anew.
        let (before, done) = cursor.before_cut(cut);
        assert_eq!((before.remaining().unwrap(), done), (cursor.remaining().unwrap(), 0));
        let text = cursor.to_json();
        assert!(text.contains(r#""first_epoch":0,"generations":[[100,1]],"order""#), "{text}");
        assert_eq!(Cursor::parse(&text).unwrap(), cursor);
        let later = cursor.with_cut(cut, 2);
        assert_eq!(later.remaining().unwrap().count(), 100 - 20);
        assert_eq!(Cursor::parse(&later.to_json()).unwrap(), later);
        assert!(!later.at_epoch(1).to_json().contains("generations"));
        assert_eq!(later.restarted().remaining().unwrap(), Intervals::full(130));
    }
}
