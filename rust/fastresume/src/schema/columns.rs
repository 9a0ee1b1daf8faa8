//! The columns of a file's schema, with the tensors that they become.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#nested-types>

use std::borrow::Cow;
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::{SchemaDescriptor, Type};
use serde::{Deserialize, Serialize};

use crate::schema::arrow_schema::{ArrowSchema, ArrowSchemaField};
use crate::schema::shaping::Shaping;
use crate::schema::types::LeafType;
pub use crate::schema::types::{Dtype, Kind, Stored};
use crate::schema::vocabulary::Vocabulary;

/// A column of a file: a leaf of its schema, or the validity of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// Its name; inside structs and maps, the path to it with dots (`a.b`).
    pub name: String,
    /// Its type in the file, for people (`int32`, `timestamp[us]`, `list<float>`, ...).
    pub type_name: String,
    /// What its rows are.
    pub kind: Kind,
    /// The dtype of its tensor; `None` if it can't be delivered without further options.
    pub dtype: Option<Dtype>,
    /// The number of elements in a row, if a row is not a single number and all rows have equally many.
    pub size: Option<usize>,
    /// The number of nested lists around its values.
    pub lists: usize,
    /// The length of each of these lists, from the outermost on, if the file fixes all of them; else empty.
    pub sizes: Vec<usize>,
    /// The unit or meaning of its numbers (`timestamp[us, UTC]`, `decimal(9, 2)`, ...), if the dtype alone
    /// does not give it.
    pub unit: Option<String>,
    /// How the file stores its values.
    pub stored: Stored,
    /// The definition level from which on a row is not null: a value, a list (which may be empty), a struct.
    pub level: u8,
    /// The definition level from which on the innermost list has an element; 0 outside of lists.
    pub element: u8,
    /// Its index among the leaves of the schema.
    pub leaf: usize,
    /// The id of its field, if the schema has one: of lists, that of the innermost elements.
    pub field_id: Option<i32>,
    /// The structs that it is in, from the outermost on.
    pub around: Vec<Around>,
    /// Whence its values come, if no page of the file holds them.
    pub given: Option<Given>,
    /// How its values are converted on request; type and kind are those after that.
    #[serde(skip)]
    pub shaping: Shaping,
    /// What stands between the values of its texts, if each is a list of them; type and kind are those after that.
    #[serde(skip)]
    pub separator: Option<Arc<[u8]>>,
    /// The vocabulary of all files, if codes are asked for.
    #[serde(skip)]
    pub vocabulary: Option<Arc<Vocabulary>>,
}

/// A struct that a column is in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Around {
    /// So many bytes of the column's name are that of the struct.
    pub name_bytes: usize,
    /// The id of its field, if the schema has one.
    pub field_id: Option<i32>,
    /// The definition level from which on it is not null.
    pub level: u8,
    /// The number of lists and maps around it.
    pub lists: usize,
}

/// Whence the values of a column come that no page of a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Given {
    /// All rows have one value, or null: in the file's path, or as the table tells.
    File,
    /// All rows are null, since neither the file nor the table has a value.
    Null,
    /// The struct around it is there or not, as the levels of another leaf say: where it is, that one value is.
    Member,
    /// The same, of lists whose structs have no such member: it is null in each.
    NullMember,
}

impl Column {
    /// Whether all rows of a file have the same value, or null, which is not in its pages.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.stored == Stored::Nothing || matches!(self.given, Some(Given::File | Given::Null))
    }

    /// What a struct that it is in is called.
    #[must_use]
    pub fn name_of(&self, around: &Around) -> &str {
        self.name.get(..around.name_bytes).unwrap_or_default()
    }

    /// Bytes of a row, if all rows have equally many; 0 if it can't be delivered.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.dtype.map_or(0, |dtype| dtype.width().saturating_mul(self.elements()))
    }

    /// The dtype of its tensor without any requested conversion.
    #[must_use]
    pub fn unshaped(&self) -> Option<Dtype> {
        self.shaping.from().or(self.dtype)
    }

    /// Its type in the file, for people, with the length of its lists if that is fixed.
    #[must_use]
    pub fn type_of_rows(&self) -> Cow<'_, str> {
        match self.size {
            Some(size) if self.lists > 0 => format!("{} of {size} elements", self.type_name).into(),
            _ => Cow::Borrowed(&self.type_name),
        }
    }

    /// The number of elements in a row, if all rows have equally many.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.size.unwrap_or(1)
    }

    /// The number of elements of each value of a list: one, unless values are bytes.
    #[must_use]
    pub fn value_size(&self) -> usize {
        if self.sizes.is_empty() { self.elements() } else { 1 }
    }

    /// The number of dimensions in which rows differ in length.
    #[must_use]
    pub fn depth(&self) -> usize {
        let are_texts = matches!(self.kind, Kind::String | Kind::Binary | Kind::Strings | Kind::Binaries);
        let lists = if self.kind.is_jagged() { self.lists.saturating_sub(self.sizes.len()) } else { 0 };
        lists + usize::from(are_texts)
    }

    /// What tells of its lists which elements are null, with as many elements in a row.
    #[must_use]
    pub fn element_marks(&self) -> Self {
        Self {
            kind: Kind::Marks,
            dtype: Some(Dtype::Bool),
            unit: None,
            shaping: Shaping::None,
            vocabulary: None,
            ..self.clone()
        }
    }

    /// Whether each row has one value in the file, or a null.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        !matches!(self.kind, Kind::List | Kind::Lists | Kind::Strings | Kind::Binaries)
    }
}

/// The columns of a file, in the file's order; a struct stands before its fields. `arrow` adds what the Arrow
/// schema says of lists.
#[must_use]
pub fn columns(schema: &SchemaDescriptor, arrow: &ArrowSchema) -> Vec<Column> {
    let mut found = FoundColumns { schema, columns: Vec::new(), leaf: 0 };
    for root in schema.root_schema().get_fields() {
        found.add(root, root.name(), Above::default(), arrow.get(root.name()));
    }
    found.columns
}

/// The longest list whose fixed length is taken from a file. A longer one is believed only if the user states
/// it.
const MAX_ELEMENTS: usize = 1 << 24;

/// What is above a node of the schema.
#[derive(Debug, Clone, Default)]
struct Above {
    /// The definition level at which a value of the node is not null.
    level: u8,
    /// The number of lists and maps around it.
    lists: usize,
    /// The lengths of the outermost ones, as far as they are fixed.
    sizes: Vec<usize>,
    /// The definition level at which the outermost one is not null.
    list_level: u8,
    /// The definition level at which the innermost one has an element.
    element: u8,
    /// The structs around it.
    structs: Vec<Around>,
}

impl Above {
    /// What is above the members of a struct.
    fn within(mut self, name: &str, node: &Type) -> Self {
        let (level, lists) = (self.level, self.lists);
        self.structs.push(Around { name_bytes: name.len(), field_id: id_of(node), level, lists });
        self
    }

    fn optional(mut self, node: &Type) -> Self {
        self.level = self.level.saturating_add(u8::from(is(node, Repetition::OPTIONAL)));
        self
    }

    fn repeated(mut self, size: Option<usize>) -> Self {
        self.sizes.extend(size.filter(|_| self.sizes.len() == self.lists));
        if self.lists == 0 {
            self.list_level = self.level;
        }
        self.level = self.level.saturating_add(1);
        self.element = self.level;
        self.lists += 1;
        self
    }
}

/// The columns that were found so far.
struct FoundColumns<'a> {
    schema: &'a SchemaDescriptor,
    columns: Vec<Column>,
    leaf: usize,
}

impl FoundColumns<'_> {
    /// Adds the columns of a node and of those below it.
    fn add(&mut self, node: &Type, name: &str, above: Above, arrow: Option<&ArrowSchemaField>) {
        let above = if is(node, Repetition::REPEATED) { above.repeated(None) } else { above.optional(node) };
        if node.is_primitive() {
            self.add_leaf(node, name, &above, arrow);
        } else if let Some(repeated) = list_of(node) {
            self.add_list(node, repeated, name, above, arrow);
        } else if let Some([key, values @ ..]) = entries_of(node) {
            let above = above.repeated(None);
            let entry = arrow.and_then(ArrowSchemaField::element);
            self.add(key, &format!("{name}.key"), above.clone(), entry.and_then(|entry| entry.member(0)));
            for value in values {
                let arrow = entry.and_then(|entry| entry.member(1));
                self.add(value, &format!("{name}.value"), above.clone(), arrow);
            }
        } else {
            let place = self.columns.len();
            self.add_members(node, name, &above, arrow);
            if above.lists == 0 && self.columns.len() > place {
                let mask = struct_mask(name, node, &above, &self.columns[place..]);
                self.columns.insert(place, mask);
            }
        }
    }

    fn add_list(
        &mut self,
        list: &Type,
        repeated: &Type,
        name: &str,
        above: Above,
        arrow: Option<&ArrowSchemaField>,
    ) {
        let above = above.repeated(arrow.and_then(|list| list.size));
        let arrow = arrow.and_then(ArrowSchemaField::element);
        match (element_of(list, repeated), inner_list(repeated)) {
            (Some(element), _) => self.add(element, name, above, arrow),
            (None, Some(inner)) => self.add_list(repeated, inner, name, above, arrow),
            (None, None) if repeated.is_primitive() => self.add_leaf(repeated, name, &above, arrow),
            (None, None) => self.add_members(repeated, name, &above, arrow),
        }
    }

    fn add_members(&mut self, group: &Type, name: &str, above: &Above, arrow: Option<&ArrowSchemaField>) {
        let above = above.clone().within(name, group);
        for member in group.get_fields() {
            let arrow = arrow.and_then(|group| group.members().get(member.name()));
            self.add(member, &format!("{name}.{}", member.name()), above.clone(), arrow);
        }
    }

    fn add_leaf(&mut self, node: &Type, name: &str, above: &Above, arrow: Option<&ArrowSchemaField>) {
        let leaf = self.leaf;
        self.leaf += 1;
        if leaf >= self.schema.num_columns() {
            return;
        }
        let LeafType { name: mut type_name, kind, dtype, size, mut unit, stored } =
            LeafType::of(&self.schema.column(leaf));
        // Parquet has no durations.
        let of_arrow = arrow.and_then(|field| field.unit).filter(|_| stored == Stored::Number(Dtype::Int64));
        if let Some(counted) = of_arrow.filter(|_| unit.is_none()) {
            type_name = format!("duration[{counted}]");
            unit = Some(type_name.clone());
        }
        let (name, level) = (name.to_owned(), above.level);
        let (lists, sizes, element, shaping) = (above.lists, Vec::new(), above.element, Shaping::None);
        let column = Column {
            name,
            type_name,
            kind,
            dtype,
            size,
            lists,
            sizes,
            unit,
            stored,
            level,
            element,
            leaf,
            field_id: id_of(node),
            around: above.structs.clone(),
            given: None,
            shaping,
            separator: None,
            vocabulary: None,
        };
        self.columns.push(if lists == 0 { column } else { listed(column, above) });
    }
}

/// A leaf inside of lists, as a column.
fn listed(column: Column, above: &Above) -> Column {
    let type_name = format!("{}{}{}", "list<".repeat(above.lists), column.type_name, ">".repeat(above.lists));
    let holds_numbers =
        matches!(column.stored, Stored::Number(_) | Stored::Int96 { .. } | Stored::Decimal { .. });
    let kind = match column.kind {
        Kind::String => Kind::Strings,
        Kind::Binary => Kind::Binaries,
        _ => Kind::List,
    };
    let is_known = holds_numbers && above.sizes.len() == above.lists;
    let elements = above.sizes.iter().try_fold(1_usize, |elements, &size| elements.checked_mul(size));
    let is_known = is_known && elements.is_some_and(|elements| elements <= MAX_ELEMENTS);
    let sizes = if is_known { above.sizes.clone() } else { Vec::new() };
    Column { type_name, kind, sizes, level: above.list_level, ..column }
}

/// The validity of a struct, from the levels of one of its fields: best of one without lists.
fn struct_mask(name: &str, node: &Type, above: &Above, members: &[Column]) -> Column {
    let chosen = members.iter().find(|member| member.is_flat());
    let chosen = chosen.or_else(|| members.iter().find(|member| member.dtype.is_some()));
    Column {
        name: name.to_owned(),
        type_name: "struct".into(),
        kind: Kind::Mask,
        dtype: chosen.map(|_| Dtype::Bool),
        size: None,
        lists: 0,
        sizes: Vec::new(),
        unit: None,
        stored: chosen.map_or(Stored::Unknown, |member| member.stored),
        level: above.level,
        element: 0,
        leaf: chosen.map_or(0, |member| member.leaf),
        field_id: id_of(node),
        around: above.structs.clone(),
        given: None,
        shaping: Shaping::None,
        separator: None,
        vocabulary: None,
    }
}

fn id_of(node: &Type) -> Option<i32> {
    let info = node.get_basic_info();
    info.has_id().then(|| info.id())
}

fn is(node: &Type, repetition: Repetition) -> bool {
    node.get_basic_info().has_repetition() && node.get_basic_info().repetition() == repetition
}

/// What a list repeats: its elements, or groups around them.
fn list_of(node: &Type) -> Option<&Type> {
    repeated_in(node).filter(|_| is_list(node))
}

/// What a list repeats that is repeated by the list around it, as old files have lists of lists.
fn inner_list(repeated: &Type) -> Option<&Type> {
    match (repeated.is_group() && is_list(repeated), repeated) {
        (true, Type::GroupType { fields, .. }) => match &fields[..] {
            [field] if is(field, Repetition::REPEATED) => Some(field),
            _ => None,
        },
        _ => None,
    }
}

fn is_list(node: &Type) -> bool {
    let info = node.get_basic_info();
    matches!(info.logical_type_ref(), Some(LogicalType::List))
        || (info.logical_type_ref().is_none() && info.converted_type() == ConvertedType::LIST)
}

/// The element of a list whose repeated part is a group around each element, as in all but old files.
fn element_of<'a>(list: &Type, repeated: &'a Type) -> Option<&'a Type> {
    if repeated.is_primitive() {
        return None;
    }
    let is_struct = repeated.name() == "array" || repeated.name() == format!("{}_tuple", list.name());
    match repeated.get_fields() {
        [element] if !is_struct && !is(element, Repetition::REPEATED) => Some(element),
        _ => None,
    }
}

/// Keys and values of a map.
fn entries_of(node: &Type) -> Option<&[Arc<Type>]> {
    let info = node.get_basic_info();
    let is_marked = matches!(info.logical_type_ref(), Some(LogicalType::Map))
        || (info.logical_type_ref().is_none()
            && matches!(info.converted_type(), ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE));
    repeated_in(node).filter(|entry| is_marked && !entry.is_primitive()).map(Type::get_fields)
}

/// The only field of a group, if it is repeated and the group is not.
fn repeated_in(node: &Type) -> Option<&Type> {
    match node.get_fields() {
        [field] if is(field, Repetition::REPEATED) && !is(node, Repetition::REPEATED) => Some(field),
        _ => None,
    }
}
