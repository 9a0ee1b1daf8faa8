//! Columns to tensors: which columns make which tensor, and the memory of one batch.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use crate::column::Target;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::schema::{Column, Dtype};

/// One tensor of a batch: `[rows]`, or `[rows, k]` where k columns are stacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The key of the tensor.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// The columns of the files that it holds.
    pub columns: Vec<String>,
    /// Whether it is a matrix; a stack of one column is one, too.
    pub is_stacked: bool,
}

impl Field {
    /// Bytes of one row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.dtype.width() * self.columns.len()
    }
}

/// Which columns are read, and where in a batch each goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Field>,
    /// For each of the manifest's schemas, the place of each field's columns in it, field after field.
    places: Vec<Vec<usize>>,
}

/// What the user asked to be stacked: a name, and the names or patterns of its columns.
pub type Stack = (String, Vec<String>);

impl Layout {
    /// The layout of the columns that `columns` names (names or globs; all where none are named), with
    /// those of each stack in one matrix behind the others.
    ///
    /// # Errors
    /// `Data` if a column is not there, can't be delivered, or differs between files, and if stacked
    /// columns differ in type; `Argument` if the request contradicts itself.
    pub fn resolve(manifest: &Manifest, columns: Option<&[String]>, stacks: &[Stack]) -> Result<Self> {
        let mut schemas = manifest.schemas();
        let Some((first, first_file)) = schemas.next() else {
            return Err(Error::Argument("the dataset has no files".into()));
        };
        let selected = select(first, columns).map_err(|error| error.in_file(first_file))?;
        for (other, file) in schemas {
            check_same(first_file, &selected, other, columns).map_err(|error| error.in_file(file))?;
        }
        let fields = stacked(&selected, stacks).map_err(|error| error.in_file(first_file))?;
        check_names(&fields)?;
        let places = manifest.schemas().map(|(columns, _)| {
            let place_of = places(columns);
            let names = fields.iter().flat_map(|field| &field.columns);
            names.filter_map(|name| place_of.get(name.as_str()).copied()).collect()
        });
        Ok(Self { places: places.collect(), fields })
    }

    /// The tensors of a batch, in its order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Every column that is read from files of a schema: its field, its place in the field, and its place
    /// in the schema.
    pub fn columns(&self, schema: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let targets = self.fields.iter().enumerate();
        let targets =
            targets.flat_map(|(field, of)| (0..of.columns.len()).map(move |column| (field, column)));
        targets.zip(&self.places[schema]).map(|((field, column), &place)| (field, column, place))
    }

    /// Bytes of one row over all tensors.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.fields.iter().map(Field::row_bytes).sum()
    }
}

/// Where in a schema each column stands, by its name.
fn places(columns: &[Column]) -> HashMap<&str, usize> {
    columns.iter().enumerate().map(|(place, column)| (column.name.as_str(), place)).collect()
}

/// The tensors of the selected columns, those of each stack in one matrix behind the others.
fn stacked(selected: &[&Column], stacks: &[Stack]) -> Result<Vec<Field>> {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    let mut matrices = Vec::with_capacity(stacks.len());
    for (name, patterns) in stacks {
        let members = pick(&selected.iter().copied(), patterns)
            .map_err(|error| Error::data(format!("in the stack '{name}': {error}")))?;
        for member in &members {
            if let Some(other) = taken.insert(&member.name, name) {
                return Err(Error::Argument(format!(
                    "the column '{}' is in the stacks '{other}' and '{name}'",
                    member.name
                )));
            }
        }
        let Some((dtype, unlike)) = members.first().map(|first| {
            (
                deliverable(first),
                members.iter().find(|member| member.dtype != first.dtype).map(|other| (*first, *other)),
            )
        }) else {
            return Err(Error::Argument(format!("the stack '{name}' names no column")));
        };
        if let Some((first, other)) = unlike {
            return Err(Error::data(format!(
                "the stack '{name}' holds columns of more than one type: '{}' is {}, '{}' is {}",
                first.name, first.type_name, other.name, other.type_name
            )));
        }
        matrices.push(Field {
            name: name.clone(),
            dtype: dtype?,
            columns: members.iter().map(|member| member.name.clone()).collect(),
            is_stacked: true,
        });
    }
    let mut fields = Vec::with_capacity(selected.len());
    for column in selected.iter().filter(|column| !taken.contains_key(column.name.as_str())) {
        fields.push(Field {
            name: column.name.clone(),
            dtype: deliverable(column)?,
            columns: vec![column.name.clone()],
            is_stacked: false,
        });
    }
    fields.append(&mut matrices);
    Ok(fields)
}

fn check_names(fields: &[Field]) -> Result<()> {
    let mut names = HashSet::new();
    match fields.iter().find(|field| !names.insert(&field.name)) {
        Some(field) => {
            Err(Error::Argument(format!("the name '{}' stands for two tensors of a batch", field.name)))
        }
        None => Ok(()),
    }
}

/// The columns of the first file that are asked for.
fn select<'a>(first: &'a [Column], columns: Option<&[String]>) -> Result<Vec<&'a Column>> {
    let selected = match columns {
        Some(patterns) => pick(&first.iter(), patterns)?,
        None => first.iter().collect(),
    };
    if selected.is_empty() {
        return Err(Error::Argument("no column is selected".into()));
    }
    let refused: Vec<&&Column> =
        selected.iter().filter(|column| column.dtype.is_none() || column.kind.is_jagged()).collect();
    if let [column, others @ ..] = refused.as_slice() {
        let others: Vec<String> =
            others.iter().map(|other| format!("'{}' ({})", other.name, other.type_name)).collect();
        let more = if others.is_empty() { String::new() } else { format!("; nor are {}", others.join(", ")) };
        let reason = format!("the type {} is not supported yet{more}", column.type_name);
        return Err(Error::data(reason).in_column(&column.name));
    }
    check_unique(first, &selected)?;
    Ok(selected)
}

/// Refuses a selected name that two columns have.
fn check_unique(columns: &[Column], selected: &[&Column]) -> Result<()> {
    let mut seen = HashSet::new();
    let twice: HashSet<&str> =
        columns.iter().map(|column| column.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    match selected.iter().find(|column| twice.contains(column.name.as_str())) {
        Some(column) => Err(Error::data("two columns have this name").in_column(&column.name)),
        None => Ok(()),
    }
}

/// The columns that names and patterns mean, in the order of the patterns, each once.
fn pick<'a>(
    among: &(impl Iterator<Item = &'a Column> + Clone),
    patterns: &[String],
) -> Result<Vec<&'a Column>> {
    let mut picked: Vec<&Column> = Vec::new();
    let mut seen = HashSet::new();
    for pattern in patterns {
        let mut found = among.clone().filter(|column| column.name == *pattern).peekable();
        let matching: Vec<&Column> = if found.peek().is_some() {
            found.collect()
        } else {
            let pattern = glob::Pattern::new(pattern).map_err(|cause| {
                Error::Argument(format!("the pattern '{pattern}' can't be read: {cause}"))
            })?;
            among.clone().filter(|column| pattern.matches(&column.name)).collect()
        };
        if matching.is_empty() {
            let names: Vec<&str> = among.clone().map(|column| column.name.as_str()).take(20).collect();
            let more = if among.clone().nth(names.len()).is_some() { ", ..." } else { "" };
            return Err(Error::data(format!(
                "no column matches '{pattern}'; there are: {}{more}",
                names.join(", ")
            )));
        }
        for column in matching {
            if seen.insert(std::ptr::from_ref(column)) {
                picked.push(column);
            }
        }
    }
    Ok(picked)
}

fn deliverable(column: &Column) -> Result<Dtype> {
    column.dtype.ok_or_else(|| {
        Error::data(format!("the type {} is not supported yet", column.type_name)).in_column(&column.name)
    })
}

/// Refuses a file whose columns differ from the first one's where it matters.
fn check_same(
    first_file: &Path,
    selected: &[&Column],
    other: &[Column],
    columns: Option<&[String]>,
) -> Result<()> {
    let place_of = places(other);
    for expected in selected {
        let Some(column) = place_of.get(expected.name.as_str()).map(|&place| &other[place]) else {
            let reason = format!("the column is missing; file '{}' has it", first_file.display());
            return Err(Error::data(reason).in_column(&expected.name));
        };
        if column.type_name != expected.type_name {
            let reason = format!(
                "the column is {}, expected {} as in file '{}'",
                column.type_name,
                expected.type_name,
                first_file.display()
            );
            return Err(Error::data(reason).in_column(&expected.name));
        }
    }
    let asked = match columns {
        Some(patterns) => pick(&other.iter(), patterns)?,
        None => other.iter().collect(),
    };
    check_unique(other, &asked)?;
    let expected: HashSet<&str> = selected.iter().map(|column| column.name.as_str()).collect();
    match asked.iter().find(|column| !expected.contains(column.name.as_str())) {
        Some(extra) => {
            let reason = format!("the column is not in file '{}'", first_file.display());
            Err(Error::data(reason).in_column(&extra.name))
        }
        None => Ok(()),
    }
}

const TRIED_BYTES: usize = 64 << 20;

/// The memory of one tensor of one batch, aligned to 8 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    words: Vec<u64>,
    length: usize,
}

impl Memory {
    /// So many bytes of zeros.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn zeroed(length: usize) -> Result<Self> {
        let words = length.div_ceil(8);
        // A refused allocation would end the process, so a large one is tried before.
        if length > TRIED_BYTES && Vec::<u64>::new().try_reserve_exact(words).is_err() {
            return Err(Error::Argument(format!(
                "no memory for a tensor of {length} bytes: batches are too large"
            )));
        }
        Ok(Self { words: vec![0; words], length })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }

    /// The words that hold the bytes, the last one filled up with zeros.
    #[must_use]
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }
}

/// The memory of one batch: one slot per field, and which rows were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    fields: Vec<Memory>,
    /// Stretches of the batch that hold consecutive rows: where each begins, and the rows.
    runs: Vec<(u64, Range<u64>)>,
    /// Instead of these, the row at each place, where rows come scattered.
    rows: Vec<u64>,
}

impl Slots {
    /// Memory for `rows` rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(layout: &Layout, rows: usize) -> Result<Self> {
        let bytes = |field: &Field| rows.saturating_mul(field.row_bytes());
        let fields = layout.fields.iter().map(|field| Memory::zeroed(bytes(field)));
        Ok(Self { fields: fields.collect::<Result<_>>()?, runs: Vec::new(), rows: Vec::new() })
    }

    /// The memory, taken out.
    #[must_use]
    pub fn taken(&mut self) -> Self {
        let Self { fields, runs, rows } = self;
        Self { fields: std::mem::take(fields), runs: std::mem::take(runs), rows: std::mem::take(rows) }
    }

    /// Where `rows` values of column `column` of field `field` go, from row `row` of the batch on.
    pub fn target(
        &mut self,
        layout: &Layout,
        (field, column): (usize, usize),
        row: usize,
        rows: usize,
    ) -> Target<'_> {
        let step = layout.fields[field].columns.len();
        Target { memory: self.fields[field].bytes_mut(), first: row * step + column, step, rows }
    }

    /// Copies rows of `bytes` bytes to a field: from row `.0` of `source` to row `.1` of the batch.
    pub fn copy_rows(&mut self, field: usize, bytes: usize, source: &[u8], rows: &[(u32, u32)]) {
        let slot = self.fields[field].bytes_mut();
        for &(from, to) in rows {
            let (from, to) = (from as usize * bytes, to as usize * bytes);
            slot[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
        }
    }

    /// Notes that consecutive rows were written from row `slot_row` of the batch on.
    pub fn note(&mut self, slot_row: u64, rows: Range<u64>) {
        self.runs.push((slot_row, rows));
    }

    /// Notes that rows were written: number `.0` of `numbers` to row `.1` of the batch.
    pub fn note_scattered(&mut self, numbers: &[u64], places: &[(u32, u32)]) {
        let end = places.iter().map(|&(_, to)| to as usize + 1).max().unwrap_or(0);
        self.rows.resize(end.max(self.rows.len()), 0);
        for &(from, to) in places {
            self.rows[to as usize] = numbers[from as usize];
        }
    }

    /// Fills the rows from `distinct` on with copies of those before, in turn.
    pub fn repeat(&mut self, layout: &Layout, distinct: usize) {
        for (field, slot) in layout.fields.iter().zip(&mut self.fields) {
            let slot = slot.bytes_mut();
            let mut filled = (distinct * field.row_bytes()).min(slot.len());
            while filled > 0 && filled < slot.len() {
                let bytes = filled.min(slot.len() - filled);
                slot.copy_within(..bytes, filled);
                filled += bytes;
            }
        }
    }

    /// The memory of each field, and the row numbers that were noted, in the batch's order, as runs.
    #[must_use]
    pub fn into_parts(mut self) -> (Vec<Memory>, Vec<Range<u64>>) {
        self.runs.sort_unstable_by_key(|(slot_row, _)| *slot_row);
        let runs = self.runs.into_iter().map(|(_, rows)| rows);
        (self.fields, runs.chain(self.rows.into_iter().map(|row| row..row + 1)).collect())
    }
}
