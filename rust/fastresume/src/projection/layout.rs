//! Columns to tensors: which columns make which tensor.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::dataset::hive_partition;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::projection::column_rules::is_in;
use crate::projection::dictionary_scan;
pub use crate::projection::field::Field;
use crate::projection::null_policy::{self, NullPolicy, Policy, Subject};
use crate::projection::output_types::{Shapes, Tensor};
use crate::projection::padding;
use crate::projection::stacks::{Stack, members, stacked};
use crate::projection::unify::{Request, agree, is_optional, places};
use crate::schema::columns::{Column, Dtype, Kind, Stored};
use crate::schema::dictionary::Vocabulary;
use crate::schema::nulls::Nulls;
use crate::schema::shaping::Shaping;

/// Which columns are read, and where in a batch each goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Field>,
    /// For each of the manifest's schemas, the columns of each field, field after field.
    columns: Vec<Vec<Column>>,
    /// For each of them, of each field the mean bytes of a row, if it is jagged or padded, as near as footers tell;
    /// else 0.
    jagged_bytes: Vec<Vec<usize>>,
    jagged_row_bytes: usize,
    row_bytes: usize,
    bundles: Vec<Vec<usize>>,
}

/// Rows of so many bytes, at most, are put together from single columns: some lines of a cache.
const BUNDLE_BYTES: usize = 128;

impl Layout {
    /// The layout of the columns that are asked for, with those of each stack in one matrix behind the others,
    /// and then the masks of the structs whose nulls are masked by name. All arguments speak of the names that
    /// columns have in the files.
    ///
    /// # Errors
    /// `Data` if a column is not there, can't be delivered, or differs between files, and if stacked
    /// columns differ in type; `Argument` if the request contradicts itself, or a fill value does not fit.
    pub fn resolve(
        manifest: &Manifest,
        request: &Request,
        stacks: &[Stack],
        nulls: &[NullPolicy],
        shapes: &Shapes,
    ) -> Result<Self> {
        let whole = with_partitions(manifest, request)?;
        let schemas: Vec<_> = whole.iter().map(|(columns, file)| (columns.as_ref(), *file)).collect();
        let Some((_, first_file)) = schemas.first() else {
            return Err(Error::Argument("the dataset has no files".into()));
        };
        let mut agreed = agree(&schemas, request)?;
        let members = members(&agreed, stacks).map_err(|error| error.in_file(first_file))?;
        shapes.apply(&mut agreed, &members).map_err(|error| error.in_file(first_file))?;
        let selected: Vec<&Column> = agreed.iter().filter_map(|column| column.first()).collect();
        let mut fields = stacked(&selected, stacks, &members).map_err(|error| error.in_file(first_file))?;
        set_nulls(&mut fields, nulls, &selected)?;
        shapes.check_names(&selected, &members)?;
        let mut fields = padded(fields, request, &selected)?;
        let by_name: HashMap<&str, &Vec<Column>> =
            selected.iter().map(|column| column.name.as_str()).zip(&agreed).collect();
        let mut columns: Vec<Vec<Column>> = Vec::with_capacity(schemas.len());
        for schema in 0..schemas.len() {
            let mut of_schema = Vec::with_capacity(selected.len());
            for field in &fields {
                for name in &field.columns {
                    let Some(column) = by_name.get(name.as_str()).and_then(|of| of.get(schema)) else {
                        continue;
                    };
                    of_schema.push(column.clone());
                }
            }
            columns.push(of_schema);
        }
        for name in masked_structs(&selected, nulls) {
            let masks = schemas.iter().map(|(columns, _)| {
                columns.iter().find(|column| column.kind == Kind::Mask && column.name == name)
            });
            let masks: Vec<Option<&Column>> = masks.collect();
            let Some(there) = masks.iter().copied().flatten().next() else { continue };
            if there.dtype.is_none() {
                let reason = "nothing tells where the struct is null: none of its members can be delivered";
                return Err(Error::data(reason).in_column(name).in_file(first_file));
            }
            for (columns, mask) in columns.iter_mut().zip(masks) {
                let lacking = || Column { stored: Stored::Nothing, ..there.clone() };
                columns.push(mask.cloned().unwrap_or_else(lacking));
            }
            let mask = Field::new(format!("{name}_valid"), Dtype::Bool, Kind::Mask, vec![name.to_owned()]);
            fields.push(Field { nulls: vec![Nulls::Filled(0)], ..mask });
        }
        name_all(&mut fields, shapes)?;
        Ok(Self::new(manifest, fields, columns))
    }

    /// The layout of these fields; `columns` are those of each schema, field after field.
    #[must_use]
    pub fn new(manifest: &Manifest, fields: Vec<Field>, columns: Vec<Vec<Column>>) -> Self {
        let jagged_bytes = jagged_bytes(manifest, &fields);
        let jagged_row_bytes = jagged_row_bytes(&jagged_bytes, &fields);
        let flat = fields.iter().filter(|field| !field.kind.is_jagged());
        let flat_bytes = flat.map(|field| field.row_bytes().saturating_add(field.mask_bytes()));
        let row_bytes = flat_bytes.fold(jagged_row_bytes, usize::saturating_add);
        let bundles = bundles(&fields);
        Self { fields, columns, jagged_bytes, jagged_row_bytes, row_bytes, bundles }
    }

    /// The same with the vocabularies of the columns of which codes are asked for: those that are known, by name, and
    /// the others gathered from the files. A set `stop` ends that early.
    ///
    /// # Errors
    /// As for [`dictionary_scan::gather`].
    pub fn with_dictionaries(
        mut self,
        manifest: &Manifest,
        mut known: HashMap<String, Vocabulary>,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let count = self.columns.first().map_or(0, Vec::len);
        for index in 0..count {
            let each: Vec<&Column> = self.columns.iter().map(|of_schema| &of_schema[index]).collect();
            let Some(column) = each.first().filter(|column| matches!(column.shaping, Shaping::Coded(..)))
            else {
                continue;
            };
            let name = column.name.clone();
            let vocabulary = match known.remove(&name) {
                Some(vocabulary) => vocabulary,
                None => dictionary_scan::gather(manifest, &each, stop)?,
            };
            for field in self.fields.iter_mut().filter(|field| field.columns == [name.as_str()]) {
                field.unit = Some(format!("dictionary[{}]", vocabulary.len()));
            }
            let vocabulary = Arc::new(vocabulary);
            for of_schema in &mut self.columns {
                of_schema[index].vocabulary = Some(Arc::clone(&vocabulary));
            }
        }
        Ok(self)
    }

    /// Whether codes are asked for of a column.
    #[must_use]
    pub fn needs_dictionaries(&self) -> bool {
        let mut columns = self.columns.first().into_iter().flatten();
        columns.any(|column| matches!(column.shaping, Shaping::Coded(..)))
    }

    /// The columns of which codes are delivered: names, values, and whether these are text.
    pub fn dictionaries(&self) -> impl Iterator<Item = (&str, &Vocabulary, bool)> {
        let columns = self.columns.first().into_iter().flatten();
        columns.filter_map(|column| {
            let is_text = matches!(column.shaping, Shaping::Coded(_, true));
            Some((column.name.as_str(), column.vocabulary.as_deref()?, is_text))
        })
    }

    /// The tensors of a batch, in its order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The columns of each field in files of a schema, field after field.
    #[must_use]
    pub fn columns(&self, schema: usize) -> &[Column] {
        &self.columns[schema]
    }

    /// Of each field the mean bytes of a row in files of a schema, if it is jagged or padded, as near as footers tell;
    /// else 0.
    #[must_use]
    pub fn jagged_bytes(&self, schema: usize) -> &[usize] {
        &self.jagged_bytes[schema]
    }

    /// Fields of numbers, by their indices, that are put together where rows go here and there: each row of them is moved
    /// once, and not once for each column. A matrix, which has rows of its own, is alone.
    #[must_use]
    pub fn bundles(&self) -> &[Vec<usize>] {
        &self.bundles
    }

    /// The most bytes that a row of several fields in one bundle has with its masks, and the most columns.
    #[must_use]
    pub fn widest_bundle(&self) -> (usize, usize) {
        let bytes = |index: &usize| self.fields[*index].row_bytes() + self.fields[*index].mask_bytes();
        let several = self.bundles.iter().filter(|bundle| bundle.len() > 1);
        let sizes = several.map(|bundle| (bundle.iter().map(bytes).sum(), bundle.len()));
        sizes.fold((0, 0), |most, size: (usize, usize)| (most.0.max(size.0), most.1.max(size.1)))
    }

    /// Bytes of one row over all jagged tensors, as the footers lead to expect.
    #[must_use]
    pub fn jagged_row_bytes(&self) -> usize {
        self.jagged_row_bytes
    }

    /// Bytes of one row over all tensors; of jagged ones, what the footers lead to expect.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }
}

fn bundles(fields: &[Field]) -> Vec<Vec<usize>> {
    let mut bundles: Vec<Vec<usize>> = Vec::new();
    for (index, field) in fields.iter().enumerate().filter(|(_, field)| field.is_flat()) {
        let width = field.row_bytes();
        let has_room = |bundle: &&mut Vec<usize>| {
            let of = &fields[bundle[0]];
            of.is_single() && of.row_bytes() == width && (bundle.len() + 1) * width <= BUNDLE_BYTES
        };
        // Others of a width are full when one begins: the last one of it is found soon, however many there are.
        let open = if field.is_single() { bundles.iter_mut().rev().find(has_room) } else { None };
        match open {
            Some(bundle) => bundle.push(index),
            None => bundles.push(vec![index]),
        }
    }
    bundles
}

/// The columns of a file, and its path.
type FileColumns<'a> = (Cow<'a, [Column]>, &'a Path);

/// The columns of each schema, and those that stand in the files' paths.
fn with_partitions<'a>(manifest: &'a Manifest, request: &Request) -> Result<Vec<FileColumns<'a>>> {
    let mut added = Vec::with_capacity(request.partitions.len());
    for name in &request.partitions {
        added.push(hive_partition::column(manifest, name, is_optional(request, name)?)?);
    }
    let extended = |columns: &'a [Column]| match added.as_slice() {
        [] => Cow::Borrowed(columns),
        added => Cow::Owned(columns.iter().chain(added).cloned().collect()),
    };
    Ok(manifest.schemas().map(|(columns, file)| (extended(columns), file)).collect())
}

/// The same, with those that are padded as matrices, each before its lengths.
fn padded(fields: Vec<Field>, request: &Request, selected: &[&Column]) -> Result<Vec<Field>> {
    let subjects: Vec<_> = fields
        .iter()
        .filter(|field| field.kind.is_jagged() && !field.kind.is_nested())
        .filter_map(|field| Some((field.columns.first()?.as_str(), field.dtype)))
        .collect();
    let able: HashSet<&str> = subjects.iter().map(|(name, _)| *name).collect();
    let others: Vec<_> = selected
        .iter()
        .filter(|column| !able.contains(column.name.as_str()))
        .map(|column| (column.name.as_str(), column.type_of_rows()))
        .collect();
    let others: Vec<_> = others.iter().map(|(name, type_name)| (*name, type_name.as_ref())).collect();
    let mut found = padding::resolve(&request.pads, &request.truncations, &subjects, &others)?.into_iter();
    let mut all = Vec::with_capacity(fields.len());
    for mut field in fields {
        let padding =
            if field.kind.is_jagged() && !field.kind.is_nested() { found.next().flatten() } else { None };
        let lengths = padding.map(|padding| {
            (field.kind, field.size, field.padding) = (Kind::Scalar, Some(padding.size), Some(padding));
            let name = format!("{}_length", field.name);
            let lengths = Field::new(name, Dtype::Int64, Kind::Length, field.columns.clone());
            Field { nulls: vec![Nulls::Filled(0)], ..lengths }
        });
        all.push(field);
        all.extend(lengths);
    }
    Ok(all)
}

fn set_nulls(fields: &mut [Field], nulls: &[NullPolicy], selected: &[&Column]) -> Result<()> {
    let buckets: HashMap<&str, u64> = selected
        .iter()
        .filter_map(|column| match column.shaping {
            Shaping::Hashed(_, buckets) => Some((column.name.as_str(), buckets.count)),
            _ => None,
        })
        .collect();
    let subjects = fields.iter().flat_map(|field| {
        let stack = field.is_stacked.then_some(field.name.as_str());
        let (dtype, kind) = (field.dtype, field.kind);
        let buckets = &buckets;
        let subject = move |name| Subject { name, stack, dtype, kind, buckets: buckets.get(name).copied() };
        field.columns.iter().map(String::as_str).map(subject)
    });
    let mut found = null_policy::resolve(nulls, &subjects.collect::<Vec<_>>())?.into_iter();
    for field in fields {
        field.nulls = found.by_ref().take(field.columns.len()).collect();
        let masked = field.nulls.iter().filter(|nulls| **nulls == Nulls::Masked).count();
        if field.is_stacked && masked > 0 && masked < field.columns.len() {
            return Err(Error::Argument(format!(
                "the nulls of {masked} of the {} columns of the stack '{}' are masked: mask all of them, or none",
                field.columns.len(),
                field.name
            )));
        }
    }
    Ok(())
}

/// The structs whose nulls are masked by their own name, and of which a column is selected.
fn masked_structs<'a>(selected: &[&Column], nulls: &'a [NullPolicy]) -> Vec<&'a str> {
    let masked = nulls.iter().filter(|(_, policy)| *policy == Policy::Mask);
    let names = masked.filter_map(|(key, _)| key.as_deref());
    names.filter(|name| selected.iter().any(|column| is_in(&column.name, name))).collect()
}

fn jagged_bytes(manifest: &Manifest, fields: &[Field]) -> Vec<Vec<usize>> {
    let of_schema = |(schema, (columns, _)): (usize, (&[Column], _))| {
        let by_name = places(columns);
        let of_field = |field: &Field| {
            let column = field.columns.first().filter(|_| field.kind.is_jagged() || field.padding.is_some());
            let place = column.and_then(|name| by_name.get(name.as_str()));
            // As they would be delivered if nothing else became of them.
            let width = |place: &usize| columns[*place].dtype.map_or(1, Dtype::width) as u64;
            let bytes = place.map_or(0, |place| {
                manifest.jagged_row_bytes(schema, *place).saturating_mul(field.dtype.width() as u64)
                    / width(place)
            });
            usize::try_from(bytes).unwrap_or(usize::MAX >> 8)
        };
        fields.iter().map(of_field).collect()
    };
    manifest.schemas().enumerate().map(of_schema).collect()
}

fn jagged_row_bytes(jagged_bytes: &[Vec<usize>], fields: &[Field]) -> usize {
    let jagged = fields.iter().enumerate().filter(|(_, field)| field.kind.is_jagged());
    let of_each = jagged.map(|(index, field)| {
        let expected = jagged_bytes.iter().map(|of_schema| of_schema[index]).max().unwrap_or(0);
        expected.saturating_add(size_of::<u64>() + field.mask_bytes())
    });
    of_each.fold(0, usize::saturating_add)
}

/// Gives the tensors the names that are asked for. Lengths are called after what they are of, but where they are named
/// themselves: by a name that no column has.
fn name_all(fields: &mut [Field], shapes: &Shapes) -> Result<()> {
    let names: HashSet<&str> =
        fields.iter().filter(|field| field.kind != Kind::Length).map(|field| field.name.as_str()).collect();
    let mut news: Vec<Option<String>> = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        let is_length = field.kind == Kind::Length;
        let own = shapes.new_name(&field.name).filter(|_| !is_length || !names.contains(field.name.as_str()));
        let of = news.last().cloned().flatten().filter(|_| is_length);
        news.push(own.cloned().or_else(|| of.map(|name| format!("{name}_length"))));
    }
    let tensors = fields.iter_mut().zip(news).map(|(field, new)| Tensor {
        what: match field.kind {
            Kind::Mask => "mask",
            Kind::Length => "length",
            _ if field.is_stacked => "stack",
            _ => "column",
        },
        is_masked: field.is_masked() && !field.kind.is_jagged(),
        name: &mut field.name,
        new,
    });
    shapes.name_all(tensors.collect())
}
