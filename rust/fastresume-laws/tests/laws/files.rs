//! Datasets that grow file by file: rows with a number and some tokens, in pages of a few rows. Of each there are copies, in
//! which pages rot and files go once they are listed.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, create_dir_all, remove_dir_all, remove_file};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastresume::{Identity, Manifest, OrderKind, Read, Selection, Units, split};
use parquet::data_type::Int32Type;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::units::{Unit, made_of};

pub static GO: AtomicBool = AtomicBool::new(false);

/// The columns, in the order of the files.
pub const COLUMNS: [&str; 2] = ["number", "tokens"];

/// A page has so many rows.
const PAGE_ROWS: usize = 3;

/// A dataset that grows file by file: the row groups of each, and how they are written.
struct Log {
    files: &'static [&'static [u64]],
    is_v2: bool,
    has_index: bool,
    has_dictionaries: bool,
}

const LOGS: [Log; 4] = [
    Log {
        files: &[&[5, 3], &[7], &[], &[1, 1, 1], &[0], &[12, 2], &[6]],
        is_v2: false,
        has_index: true,
        has_dictionaries: false,
    },
    Log {
        files: &[&[40], &[1], &[40, 40], &[2], &[9, 9, 9]],
        is_v2: true,
        has_index: true,
        has_dictionaries: true,
    },
    Log {
        files: &[&[2], &[3], &[1], &[0], &[0], &[4], &[2], &[1], &[3]],
        is_v2: true,
        has_index: true,
        has_dictionaries: false,
    },
    Log {
        files: &[&[11, 0, 13], &[0], &[17], &[1, 0], &[8, 8]],
        is_v2: false,
        has_index: false,
        has_dictionaries: false,
    },
];

/// How many of them there are.
pub const NUM_LOGS: usize = LOGS.len();

/// What is counted, and whether a split selects the rows of it.
pub const KINDS: [(Unit, bool); 5] = [
    (Unit::Row, false),
    (Unit::Row, true),
    (Unit::Packed { length: 7, has_separator: false, is_padded: false }, true),
    (Unit::Packed { length: 4, has_separator: true, is_padded: true }, false),
    (Unit::Bin { cost: 12, rows: 3 }, true),
];

/// The number in a row.
pub fn number(row: u64) -> i32 {
    i32::try_from(row + 1).unwrap()
}

/// The tokens of a row.
pub fn tokens(row: u64) -> Vec<i32> {
    let length = (row * 7 + row / 8) % 11;
    (1..=length).map(|place| i32::try_from(row * 16 + place).unwrap()).collect()
}

/// The first files of a dataset, and what is counted of them.
pub struct Beginning {
    pub manifest: Arc<Manifest>,
    pub selection: Arc<Selection>,
    pub units: Option<Arc<Units>>,
}

impl Beginning {
    fn new(manifest: &Arc<Manifest>, unit: Unit, is_split: bool) -> Self {
        let starts = manifest.group_starts();
        let rows = split::split(manifest.num_rows(), &(0..1 << 52), 5, &GO).unwrap();
        let selection =
            if is_split { Selection::new(starts, rows).unwrap() } else { Selection::everything(starts) };
        let units = made_of(unit, manifest, &selection).map(Arc::new);
        Self { manifest: Arc::clone(manifest), selection: Arc::new(selection), units }
    }

    pub fn read(&self) -> Read<'_> {
        Read { manifest: &self.manifest, selection: &self.selection, units: self.units.as_deref() }
    }

    pub fn identity(&self, order: &OrderKind) -> Identity {
        self.read().identity(order.clone())
    }

    /// What positions count.
    pub fn counted(&self) -> &Arc<Selection> {
        self.units.as_ref().map_or(&self.selection, |units| units.selection())
    }
}

/// A copy of the files of a dataset.
pub struct Copy {
    /// For each of `KINDS`, the beginnings of which something is counted.
    pub beginnings: Vec<Vec<Beginning>>,
    /// For each column, the rows that can't be read.
    pub bad: [BTreeSet<u64>; 2],
}

/// All datasets, each in some copies, the first of which is whole. The files are gone with this value.
pub struct Datasets {
    directory: PathBuf,
    pub logs: Vec<Vec<Copy>>,
}

impl Drop for Datasets {
    fn drop(&mut self) {
        drop(remove_dir_all(&self.directory));
    }
}

impl Datasets {
    pub fn new(copies: u64) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("laws-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let of_log = |(number, log): (u64, &Log)| {
            (0..copies)
                .map(|copy| Copy::new(&directory.join(format!("{number}-{copy}")), log, number, copy))
                .collect()
        };
        let logs = (0..).zip(&LOGS).map(of_log).collect();
        Self { directory, logs }
    }
}

impl Copy {
    fn new(directory: &Path, log: &Log, number: u64, copy: u64) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut starts = vec![0];
        for (file, groups) in log.files.iter().enumerate() {
            paths.push(directory.join(format!("day={file:02}/part.parquet")));
            write(&paths[file], log, groups, starts[file]);
            starts.push(starts[file] + groups.iter().sum::<u64>());
        }
        let opened: Vec<Arc<Manifest>> =
            (1..=paths.len()).map(|count| Arc::new(Manifest::open(&paths[..count], &GO).unwrap())).collect();
        let of_kind = |&(unit, is_split): &(Unit, bool)| {
            let all = opened.iter().map(|manifest| Beginning::new(manifest, unit, is_split));
            all.filter(|beginning| beginning.counted().count() > 0).collect()
        };
        let beginnings = KINDS.iter().map(of_kind).collect();
        let mut made = Self { beginnings, bad: Default::default() };
        let mut dice = Dice(number * 1000 + copy);
        for (file, path) in paths.iter().enumerate().filter(|_| copy > 0) {
            let rows = starts[file]..starts[file + 1];
            match dice.roll(9) {
                0 => remove_file(path).unwrap(),
                1 => {
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
                }
                _ => {
                    rot(path, log, starts[file], &mut dice, &mut made.bad);
                    continue;
                }
            }
            made.bad.iter_mut().for_each(|bad| bad.extend(rows.clone()));
        }
        made
    }
}

fn properties(log: &Log, has_index: bool) -> Arc<WriterProperties> {
    let version = if log.is_v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_dictionary_enabled(log.has_dictionaries)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(1)
        .set_offset_index_disabled(!has_index);
    Arc::new(properties.build())
}

fn write(path: &Path, log: &Log, groups: &[u64], first: u64) {
    create_dir_all(path.parent().unwrap()).unwrap();
    write_to(File::create(path).unwrap(), log, groups, first, log.has_index);
}

fn write_to(file: impl Write + Send, log: &Log, groups: &[u64], mut first: u64, has_index: bool) {
    let message = "message m { required int32 number;
        required group tokens (LIST) { repeated group list { required int32 element; } } }";
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut writer = SerializedFileWriter::new(file, schema, properties(log, has_index)).unwrap();
    for &rows in groups {
        let mut group = writer.next_row_group().unwrap();
        let numbers: Vec<i32> = (first..first + rows).map(number).collect();
        write_column(&mut group, &numbers, None);
        let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
        for row in first..first + rows {
            let own = tokens(row);
            definition.extend((0..own.len().max(1)).map(|_| i16::from(!own.is_empty())));
            repetition.extend((0..own.len().max(1)).map(|place| i16::from(place > 0)));
            values.extend(own);
        }
        write_column(&mut group, &values, Some((&definition, &repetition)));
        group.close().unwrap();
        first += rows;
    }
    writer.close().unwrap();
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[i32],
    levels: Option<(&[i16], &[i16])>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    let (definition, repetition) = levels.unzip();
    column.typed::<Int32Type>().write_batch(values, definition, repetition).unwrap();
    column.close().unwrap();
}

/// Makes the headers of some pages of a file unreadable, and notes which rows can't be read without them.
fn rot(path: &Path, log: &Log, first: u64, dice: &mut Dice, bad: &mut [BTreeSet<u64>; 2]) {
    // A file without an index has the same pages as one with it.
    let indexed = path.with_extension("indexed");
    let groups = rows_of_groups(path);
    write_to(File::create(&indexed).unwrap(), log, &groups, first, true);
    let policy = PageIndexPolicy::Optional;
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(policy);
    reader.try_parse(&File::open(&indexed).unwrap()).unwrap();
    let metadata = reader.finish().unwrap();
    remove_file(&indexed).unwrap();
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    let mut break_at = |offset: i64| {
        file.seek(SeekFrom::Start(offset.try_into().unwrap())).unwrap();
        file.write_all(&[0xff; 4]).unwrap();
    };
    let mut start = first;
    for (number, &rows) in groups.iter().enumerate() {
        let places = metadata.page_index_for_row_group(number);
        for (column, bad) in bad.iter_mut().enumerate() {
            let end = start + rows;
            let of_dictionary = metadata.row_group(number).column(column).dictionary_page_offset();
            if let Some(offset) = of_dictionary.filter(|_| rows > 0 && dice.roll(8) == 0) {
                break_at(offset);
                bad.extend(start..end);
                continue;
            }
            let Some(pages) = places.page_locations(column) else { continue };
            for (index, page) in pages.iter().enumerate().filter(|_| rows > 0 && dice.roll(7) == 0) {
                break_at(page.offset);
                let first_row = |page: &PageLocation| start + u64::try_from(page.first_row_index).unwrap();
                let (at, behind) = (first_row(page), pages.get(index + 1).map_or(end, first_row));
                if log.has_index {
                    bad.extend(at..behind);
                } else {
                    // Nothing tells whether a list goes on in a page that can't be read, nor which rows the next one has.
                    bad.extend(at.saturating_sub(column as u64).max(start)..end);
                }
            }
        }
        start += rows;
    }
}

fn rows_of_groups(path: &Path) -> Vec<u64> {
    let mut reader = ParquetMetaDataReader::new();
    reader.try_parse(&File::open(path).unwrap()).unwrap();
    let metadata = reader.finish().unwrap();
    metadata.row_groups().iter().map(|group| group.num_rows().try_into().unwrap()).collect()
}

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}
