//! What is counted of datasets in the place of rows: packed sequences, and bins by cost. The oracle walks over rows, and over
//! tokens, one by one.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use fastresume::stretches::{MostOfStretch, OfGroups, of_costs};
use fastresume::{CostSource, Manifest, Selection, SequenceTable, UnitRows, Units};

use crate::files::{COLUMNS, tokens};

/// How rows are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Row,
    Packed { length: u64, has_separator: bool, is_padded: bool },
    Bin { cost: u64, rows: u64 },
}

/// What lies between two anchors of the index.
const NEAR: MostOfStretch = MostOfStretch { cost: 7, rows: 2 };

/// A part of a unit: a row, and which of its tokens; of bins, the row as a whole. The separator is behind the tokens.
pub type Part = (u64, u64);

/// The selected rows of each row group, in the files' order.
fn rows_of_groups(manifest: &Manifest, selection: &Selection) -> Vec<Vec<u64>> {
    let ordinals = selection.group_starts().windows(2).map(|pair| pair[0]..pair[1]);
    let rows = ordinals.map(|ordinals| selection.rows(ordinals).flatten().collect());
    let found: Vec<Vec<u64>> = rows.collect();
    assert_eq!(found.len(), manifest.num_groups());
    found
}

/// The parts of all units of each file, or of each row group where bins end.
fn stretches(unit: Unit, manifest: &Manifest, selection: &Selection) -> Vec<Vec<Vec<Part>>> {
    let groups = rows_of_groups(manifest, selection);
    match unit {
        Unit::Row => {
            groups.into_iter().map(|rows| rows.into_iter().map(|row| vec![(row, 0)]).collect()).collect()
        }
        Unit::Packed { length, has_separator, is_padded } => {
            let of_file = |groups: &[Vec<u64>]| {
                let mut all: Vec<Part> = Vec::new();
                for &row in groups.iter().flatten() {
                    let own = tokens(row).len() as u64;
                    let behind = u64::from(has_separator && own > 0);
                    all.extend((0..own + behind).map(|place| (row, place)));
                }
                let units = all.chunks(usize::try_from(length).unwrap());
                let is_whole = |unit: &&[Part]| is_padded || unit.len() as u64 == length;
                units.filter(is_whole).map(<[Part]>::to_vec).collect()
            };
            files(manifest).map(|of| of_file(&groups[of])).collect()
        }
        Unit::Bin { cost, rows: most } => {
            let of_group = |rows: Vec<u64>| {
                let mut bins: Vec<Vec<Part>> = Vec::new();
                let mut left = 0;
                for row in rows {
                    let own = tokens(row).len() as u64;
                    let fits = bins.last().is_some_and(|bin| own <= left && (bin.len() as u64) < most);
                    if !fits {
                        bins.push(Vec::new());
                        left = cost;
                    }
                    left = left.saturating_sub(own);
                    bins.last_mut().unwrap().push((row, 0));
                }
                bins
            };
            groups.into_iter().map(of_group).collect()
        }
    }
}

/// The row groups of each file.
fn files(manifest: &Manifest) -> impl Iterator<Item = Range<usize>> {
    let bounds: Vec<usize> = manifest.file_groups().collect();
    (1..bounds.len()).map(move |file| bounds[file - 1]..bounds[file])
}

/// The parts of each unit, walked over one by one.
pub fn parts(unit: Unit, manifest: &Manifest, selection: &Selection) -> Vec<Vec<Part>> {
    stretches(unit, manifest, selection).concat()
}

/// How the core knows units; nothing where rows are counted.
pub fn made_of(unit: Unit, manifest: &Manifest, selection: &Selection) -> Option<Units> {
    if unit == Unit::Row {
        return None;
    }
    let each = stretches(unit, manifest, selection);
    let starts = sums(each.iter().map(|stretch| stretch.len() as u64));
    let of_files = match unit {
        Unit::Bin { .. } => manifest.file_groups().map(|group| starts[group]).collect(),
        _ => starts.clone(),
    };
    Some(Units::new(&starts, of_files, format!("{unit:?}")))
}

/// The sums of numbers before each, then that of all.
fn sums(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let behind = numbers.scan(0, |sum, number| {
        *sum += number;
        Some(*sum)
    });
    std::iter::once(0).chain(behind).collect()
}

/// The table of sequences, of what the core reads of the files' levels.
pub fn table(unit: Unit, manifest: &Manifest, selection: &Selection) -> Option<SequenceTable> {
    let Unit::Packed { length, has_separator, is_padded } = unit else { return None };
    let source = CostSource::Lists(vec![COLUMNS[1].to_owned()]);
    let rows = UnitRows { manifest, selection, source: &source };
    let of_group = |group| {
        let costs = rows.costs(group..group + 1, 2, &AtomicBool::new(false)).unwrap();
        of_costs(costs.into_iter().map(|cost| cost + u64::from(has_separator && cost > 0)), NEAR).unwrap()
    };
    let files: Vec<OfGroups> = files(manifest).map(|groups| groups.map(of_group).collect()).collect();
    Some(SequenceTable::of_files(length, is_padded, &[], &files).unwrap())
}
