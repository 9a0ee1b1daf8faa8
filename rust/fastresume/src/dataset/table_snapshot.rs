//! What a table tells of the files of one of its snapshots: how their columns are called now, and which values
//! they have that are not in them.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dataset::file_summary::FileSummary;
use crate::dataset::file_value::FileValue;
use crate::dataset::found_files::FoundFile;
use crate::dataset::listing::Listed;
use crate::error::{Error, Result};
use crate::format::metadata::null_count::NullCount;
use crate::schema::columns::{Around, Column, Dtype, Given, Kind, Stored};

/// A column of the table: a leaf of its schema, or a struct.
#[derive(Debug, Clone)]
pub struct TableColumn {
    /// What it is called, in the form of [`Column::name`].
    pub name: String,
    /// The id of its field, by which files that have ids know it.
    pub field_id: Option<i32>,
    /// What files without ids call it, each by one of these names; none of one that is in no file.
    pub names_in_files: Vec<String>,
    /// Its type, in lists that of their elements: `int32`, `date[day]`, `string`; none of a struct.
    pub type_name: Option<String>,
    /// The number of lists and maps around it.
    pub lists: usize,
    /// The names of the structs that it is in, from the outermost on.
    pub structs: Vec<String>,
    /// Whether it is a struct, which has no values of its own.
    pub is_struct: bool,
    /// Whether a struct that files lack is there, with what its members are by default.
    pub is_there: bool,
}

/// What a table tells of its files.
#[derive(Debug, Clone, Default)]
pub struct TableSnapshot {
    /// In the table's order.
    pub columns: Vec<TableColumn>,
    /// Of each file, in the order of the paths: the values of columns that may not be in it.
    pub values: Vec<HashMap<String, FileValue>>,
    /// Names that two columns have had, so that files without ids do not tell which one they hold.
    pub shared_names: Vec<String>,
}

/// The values that a table tells of each file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TableValues {
    columns: Vec<Column>,
    /// Of each file those of all columns.
    values: Vec<Vec<FileValue>>,
    /// The first file in which names of columns do not mean what they mean in the table.
    renamed: Option<usize>,
}

/// The columns of a schema under the table's names, the place of each in the file, and whether names mean the same in both.
type Renamed = (Arc<[Column]>, Vec<Option<usize>>, bool);

impl TableValues {
    /// The column of a name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The same of files in another order.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let values = order.iter().map(|&file| self.values.get(file).cloned().unwrap_or_default()).collect();
        let renamed = self.renamed.and_then(|of| order.iter().position(|&file| file == of));
        Self { columns: self.columns.clone(), values, renamed }
    }

    /// The first file in which names of columns do not mean what they mean in the table.
    pub fn renamed(&self) -> Option<usize> {
        self.renamed
    }

    /// The value of a column in a file; `None` if the table tells nothing of such a column.
    pub fn value(&self, file: usize, name: &str) -> Option<FileValue> {
        let place = self.columns.iter().position(|column| column.name == name)?;
        let value = self.values.get(file).and_then(|values| values.get(place));
        Some(value.cloned().unwrap_or(FileValue::Null))
    }
}

impl TableSnapshot {
    /// The files as the table has them: with its columns, in its order and by its names.
    ///
    /// A column that a file lacks is null there, or what the table tells. What the table does not have is left out.
    ///
    /// # Errors
    /// `Argument` if there are values of another number of files; `Data` if names do not tell what a file holds.
    pub fn applied(&self, listed: &[Listed], found: &[FoundFile]) -> Result<(Vec<FoundFile>, TableValues)> {
        if self.values.len() != found.len() {
            return Err(Error::Argument(format!(
                "the table has {} files, {} were found",
                self.values.len(),
                found.len()
            )));
        }
        for (Listed { path, .. }, file) in listed.iter().zip(found) {
            self.check_names(&file.summary.columns).map_err(|error| error.in_file(path))?;
        }
        let numbers = self.columns.iter().enumerate().map(|(number, column)| (column.name.as_str(), number));
        let table = ComparedTable {
            columns: &self.columns,
            structs: numbers.filter(|&(_, number)| self.columns[number].is_struct).collect(),
            have_values: self.columns.iter().map(|column| self.has_values(column)).collect(),
            held: self.columns.iter().map(|column| is_held(column, found)).collect(),
        };
        // Partition columns are in no file, so that the table's word counts even where it has none.
        let are_given = |column: &&TableColumn| self.has_values(column) || column.names_in_files.is_empty();
        let columns: Vec<Column> = self.columns.iter().filter(are_given).map(TableColumn::typed).collect();
        let values_of = |of: &HashMap<String, FileValue>| {
            columns.iter().map(|column| of.get(&column.name).cloned().unwrap_or(FileValue::Null)).collect()
        };
        let values = self.values.iter().map(values_of).collect();
        let mut made: HashMap<*const Column, Renamed> = HashMap::new();
        let mut renamed = None;
        let applied = found.iter().enumerate().map(|(number, file)| {
            let known = made
                .entry(file.summary.columns.as_ptr())
                .or_insert_with(|| table.renamed(&file.summary.columns));
            let summary = with_columns(&file.summary, &known.0, &known.1);
            renamed = renamed.or((!known.2).then_some(number));
            FoundFile { status: file.status.clone(), summary, was_known: file.was_known }
        });
        let applied = applied.collect();
        Ok((applied, TableValues { columns, values, renamed }))
    }

    fn check_names(&self, own: &[Column]) -> Result<()> {
        if self.shared_names.is_empty() || has_ids(own) {
            return Ok(());
        }
        match own.iter().find(|column| self.shared_names.contains(&column.name)) {
            Some(Column { name, .. }) => Err(Error::data(format!(
                "the file has no field ids, and the table has called two columns '{name}', so that the name does not tell \
                 which one it is: the property schema.name-mapping.default tells it, or rewrite the table"
            ))),
            None => Ok(()),
        }
    }

    fn has_values(&self, column: &TableColumn) -> bool {
        self.values.iter().any(|of| of.contains_key(&column.name))
    }
}

/// Whether a file has a column.
fn is_held(column: &TableColumn, found: &[FoundFile]) -> bool {
    let mut before: Option<&Arc<[Column]>> = None;
    found.iter().any(|file| {
        let columns = &file.summary.columns;
        let is_new = before.is_none_or(|before| !Arc::ptr_eq(before, columns));
        before = Some(columns);
        is_new && {
            let has_ids = has_ids(columns);
            columns.iter().any(|own| column.is(own, has_ids))
        }
    })
}

/// Whether the columns of a file are known by ids: then their names say nothing.
fn has_ids(own: &[Column]) -> bool {
    own.iter().any(|column| {
        column.field_id.is_some() || column.around.iter().any(|around| around.field_id.is_some())
    })
}

/// The columns of a table, as files are compared with them.
struct ComparedTable<'a> {
    columns: &'a [TableColumn],
    /// The numbers of its structs, by their names.
    structs: HashMap<&'a str, usize>,
    /// Of each column, whether the table tells values of it.
    have_values: Vec<bool>,
    /// And whether any file has it.
    held: Vec<bool>,
}

/// What stands for a column in a file that lacks it.
enum Stand<'a> {
    /// One value, or null, in all rows.
    File { is_null: bool },
    /// One value, or null, wherever a struct is there, as a column of the file tells.
    Struct { is_null: bool, sibling: &'a Column, around: &'a Around },
}

impl ComparedTable<'_> {
    /// The table's columns in a file of these columns, and where each of the file's columns stands among them.
    fn renamed(&self, own: &[Column]) -> Renamed {
        let has_ids = has_ids(own);
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut places = vec![None; own.len()];
        for (number, column) in self.columns.iter().enumerate() {
            let before = columns.len();
            for (place, held) in own.iter().enumerate().filter(|(_, held)| column.is(held, has_ids)) {
                places[place] = Some(columns.len());
                columns.push(column.retyped(held));
            }
            if columns.len() == before && !(column.is_struct && column.lists > 0) {
                let stand = self.stand(number, own, has_ids);
                columns.push(stand_in(column, &stand, self.held[number]));
            }
        }
        let is_as_named = own.iter().zip(&places).all(|(held, place)| match *place {
            Some(place) => columns[place].name == held.name,
            None => !self.columns.iter().any(|column| column.name == held.name),
        });
        (columns.into(), places, is_as_named)
    }

    /// What stands for a column that a file lacks.
    fn stand<'b>(&self, number: usize, own: &'b [Column], has_ids: bool) -> Stand<'b> {
        let column = &self.columns[number];
        let mut is_there = true;
        for name in column.structs.iter().rev() {
            let Some(&of) = self.structs.get(name.as_str()) else { break };
            let of = &self.columns[of];
            let members = own.iter().filter(|one| one.kind != Kind::Mask);
            let in_it = members.filter_map(|one| {
                let around = one.around.iter().find(|around| of.is_around(one, around, has_ids))?;
                Some((one, around))
            });
            // Levels of deeper lists say more than is asked, so those of the shallowest member are taken.
            let Some((sibling, around)) = in_it.min_by_key(|(one, _)| one.lists) else {
                is_there &= of.is_there;
                continue;
            };
            let is_null = !(is_there && self.have_values[number]);
            return match (around.lists, is_null) {
                (0, true) => Stand::File { is_null },
                (0, false) if around.level == 0 => Stand::File { is_null },
                _ => Stand::Struct { is_null, sibling, around },
            };
        }
        Stand::File { is_null: !(is_there && self.have_values[number]) }
    }
}

/// The column that stands for one that a file lacks.
fn stand_in(column: &TableColumn, stand: &Stand<'_>, is_held: bool) -> Column {
    let typed = column.typed();
    let has_any_type = is_held || column.type_name.as_deref() == Some("null") && column.lists == 0;
    match stand {
        // Any file that has it tells its type.
        Stand::File { is_null: true } if has_any_type && !column.is_struct => Column {
            type_name: "null".into(),
            kind: Kind::Scalar,
            dtype: None,
            size: None,
            lists: 0,
            unit: None,
            stored: Stored::Nothing,
            given: None,
            ..typed
        },
        Stand::File { is_null: true } => Column { given: Some(Given::Null), ..typed },
        Stand::File { is_null: false } => typed,
        Stand::Struct { is_null, sibling, around } => {
            let in_lists = column.lists > 0;
            let levels = Column {
                level: if in_lists { sibling.level } else { around.level },
                element: sibling.element,
                leaf: sibling.leaf,
                around: vec![(*around).clone()],
                given: Some(if *is_null { Given::NullMember } else { Given::Member }),
                ..typed
            };
            if in_lists && around.lists != sibling.lists || !is_null && column.lists != around.lists {
                let reason = "of a struct in lists whose members in files are lists";
                return Column { dtype: None, type_name: format!("{} {reason}", levels.type_name), ..levels };
            }
            if *is_null && is_held {
                let (dtype, stored) = (Some(Dtype::Int32), Stored::NullElements);
                return Column { kind: Kind::List, dtype, size: None, unit: None, stored, ..levels };
            }
            levels
        }
    }
}

impl TableColumn {
    /// Whether a column of a file is this one.
    fn is(&self, own: &Column, has_ids: bool) -> bool {
        (own.kind == Kind::Mask) == self.is_struct && self.is_known(own.field_id, &own.name, has_ids)
    }

    /// Whether a struct around a column of a file is this one.
    fn is_around(&self, own: &Column, around: &Around, has_ids: bool) -> bool {
        self.is_known(around.field_id, own.name_of(around), has_ids)
    }

    fn is_known(&self, field_id: Option<i32>, name: &str, has_ids: bool) -> bool {
        match self.field_id {
            Some(_) if has_ids => self.field_id == field_id,
            _ => self.names_in_files.iter().any(|own| own == name),
        }
    }

    /// A column of a file, by the table's name, and as what the table says that its values are.
    fn retyped(&self, held: &Column) -> Column {
        // What made it another than others is of no use any more.
        let (name, field_id, around) = (self.name.clone(), None, Vec::new());
        let mut column = Column { name, field_id, around, ..held.clone() };
        let Some(meant) = self.type_name.as_deref() else { return column };
        let wrapped = || format!("{}{meant}{}", "list<".repeat(held.lists), ">".repeat(held.lists));
        let is_instant = |name: &str| name.starts_with("timestamp[");
        match held.stored {
            Stored::Int96 { .. } if is_instant(meant) => {
                let tick = if meant.starts_with("timestamp[us") { 1000 } else { 1 };
                column.stored = Stored::Int96 { tick };
                (column.unit, column.type_name) = (Some(meant.to_owned()), wrapped());
            }
            Stored::Number(_) if is_instant(meant) => {
                let unit = held.unit.clone().unwrap_or_default();
                if unit == "date[day]" {
                    column.type_name = format!("{} in a column of {meant}", column.type_name);
                    column.dtype = None;
                } else if unit.trim_end_matches(", UTC]") == meant.trim_end_matches(", UTC]")
                    || unit.trim_end_matches(']') == meant.trim_end_matches(", UTC]")
                    || unit.trim_end_matches(", UTC]") == meant.trim_end_matches(']')
                {
                    // Old writers leave out whether it is UTC; the table knows.
                    (column.unit, column.type_name) = (Some(meant.to_owned()), wrapped());
                }
            }
            Stored::Fixed(16) if meant == "uuid" => {
                (column.unit, column.type_name) = (Some(meant.to_owned()), wrapped());
            }
            Stored::Bytes if meant == "string" || meant == "binary" => {
                column.kind = match (held.kind, meant) {
                    (Kind::String | Kind::Binary, "string") => Kind::String,
                    (Kind::String | Kind::Binary, _) => Kind::Binary,
                    (Kind::Strings | Kind::Binaries, "string") => Kind::Strings,
                    (Kind::Strings | Kind::Binaries, _) => Kind::Binaries,
                    (kind, _) => kind,
                };
                column.type_name = wrapped();
            }
            _ => {}
        }
        column
    }
}

fn with_columns(summary: &FileSummary, columns: &Arc<[Column]>, places: &[Option<usize>]) -> FileSummary {
    let place = |old: usize| places.get(old).copied().flatten();
    let mut extents: Vec<_> =
        summary.extents.iter().filter_map(|&(old, extent)| Some((place(old)?, extent))).collect();
    extents.sort_unstable_by_key(|&(column, _)| column);
    let large_pages = summary.large_pages.iter().filter_map(|&(old, bytes)| Some((place(old)?, bytes)));
    let nulls = summary.nulls.iter().filter_map(|&(old, count)| Some((place(old)?, count)));
    let (large_pages, mut nulls): (_, Vec<_>) = (large_pages.collect(), nulls.collect());
    let members = columns.iter().enumerate();
    let members =
        members.filter(|(_, column)| matches!(column.given, Some(Given::Member | Given::NullMember)));
    nulls.extend(members.map(|(place, _)| (place, NullCount::UNKNOWN)));
    let bounds = summary.bounds.iter().filter_map(|&(old, bounds)| Some((place(old)?, bounds))).collect();
    FileSummary { columns: Arc::clone(columns), extents, large_pages, nulls, bounds, ..summary.clone() }
}
