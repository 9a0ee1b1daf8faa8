//! Columns to tensors: which columns make which tensor.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::order::selection::Selection;
use crate::projection::dictionary_scan;
pub use crate::projection::field::Field;
use crate::projection::instead::instead;
use crate::projection::known_misfits;
use crate::projection::known_nulls::KnownNulls;
use crate::projection::made_tensor::made;
use crate::projection::request::Request;
use crate::projection::schemas::{Schemas, places};
use crate::projection::tensor_plan::{Wrong, plan, refusal};
use crate::schema::columns::{Column, Dtype, Kind};
use crate::schema::shaping::Shaping;
use crate::schema::vocabulary::Vocabulary;

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
    /// Whether damaged rows are delivered as such, and no error.
    masks_damage: bool,
    /// What footers show of integers that casts do not hold.
    misfits: Vec<String>,
}

/// Rows of so many bytes, at most, are put together from single columns: some lines of a cache.
const BUNDLE_BYTES: usize = 128;

impl Layout {
    /// The tensors that are asked for, in the order of the request.
    ///
    /// # Errors
    /// `Data` if a column is not there, can't be delivered, or differs between files, and if stacked
    /// columns differ in type; `Argument` if the request contradicts itself, or a value does not fit. All that is wrong
    /// with the columns is in one error.
    pub fn resolve(manifest: &Manifest, request: &Request) -> Result<Self> {
        Self::of_rows(manifest, request, None)
    }

    /// The same for rows that are selected: nulls among them that are known before a value is read are wrong as well, where
    /// they are errors.
    ///
    /// # Errors
    /// As for [`Layout::resolve`].
    pub fn of_rows(manifest: &Manifest, request: &Request, rows: Option<&Selection>) -> Result<Self> {
        let schemas = Schemas::new(manifest.schemas().collect())?;
        let (names, structs) = (schemas.names(false), schemas.names(true));
        let first_file = schemas.first_file();
        let tensors =
            plan(&names, &structs, request, first_file).map_err(|error| error.in_file(first_file))?;
        let (mut fields, mut columns) = (Vec::new(), vec![Vec::new(); schemas.count()]);
        let mut wrong = Vec::new();
        for tensor in &tensors {
            match made(manifest, &schemas, tensor, request.nulls) {
                Ok(found) => {
                    fields.extend(found.fields);
                    for (part, of_fields) in found.columns.into_iter().zip(found.counts) {
                        for (all, own) in columns.iter_mut().zip(part) {
                            all.extend(std::iter::repeat_n(own, of_fields));
                        }
                    }
                }
                Err(error) => wrong.push(Wrong::of(tensor, error, instead(tensor, &schemas))),
            }
        }
        if let Some(rows) = rows {
            let known = KnownNulls::find(&fields, &columns, manifest, rows);
            wrong.extend(known.wrong);
            for (field, count) in fields.iter_mut().zip(known.counts) {
                field.null_count = count;
            }
        }
        if !wrong.is_empty() {
            let uncounted = fields.iter().filter(|field| rows.is_some() && field.refuses_uncounted());
            let uncounted: Vec<&str> = uncounted.map(|field| field.name.as_str()).collect();
            return Err(refusal(&wrong, &uncounted, request.columns.is_none()));
        }
        let misfits = known_misfits::find(&fields, &columns, manifest);
        let layout = Self { misfits, ..Self::new(manifest, fields, columns) };
        check_names(&layout.fields)?;
        Ok(layout)
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
        let (masks_damage, misfits) = (false, Vec::new());
        Self { fields, columns, jagged_bytes, jagged_row_bytes, row_bytes, bundles, masks_damage, misfits }
    }

    /// The same, by which damaged rows are delivered as such, or are an error.
    #[must_use]
    pub fn masking_damage(mut self, masks_damage: bool) -> Self {
        self.masks_damage = masks_damage;
        self
    }

    /// Whether damaged rows are delivered as such, and no error.
    #[must_use]
    pub fn masks_damage(&self) -> bool {
        self.masks_damage
    }

    /// What footers show of integers that casts do not hold: a text for each column.
    #[must_use]
    pub fn misfits(&self) -> &[String] {
        &self.misfits
    }

    /// The same with the vocabularies of the columns of which codes are asked for: those that are known, by the columns' numbers, and
    /// the others gathered from the files. A set `stop` ends that early.
    ///
    /// # Errors
    /// As for [`dictionary_scan::gather`].
    pub fn with_dictionaries(
        mut self,
        manifest: &Manifest,
        mut known: HashMap<usize, Vocabulary>,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let count = self.columns.first().map_or(0, Vec::len);
        for index in 0..count {
            let each: Vec<&Column> = self.columns.iter().map(|of_schema| &of_schema[index]).collect();
            if !each.first().is_some_and(|column| needs_vocabulary(column)) {
                continue;
            }
            let vocabulary = match known.remove(&index) {
                Some(vocabulary) => vocabulary,
                None => dictionary_scan::gather(manifest, &each, stop)?,
            };
            let unit = format!("dictionary[{}]", vocabulary.len());
            if let Some(field) = self.field_of_column(index).filter(|&field| !self.fields[field].is_stacked) {
                self.fields[field].unit = Some(unit);
            }
            let vocabulary = Arc::new(vocabulary);
            for of_schema in &mut self.columns {
                of_schema[index].vocabulary = Some(Arc::clone(&vocabulary));
            }
        }
        Ok(self)
    }

    /// Whether codes are asked for of a column whose values are not known.
    #[must_use]
    pub fn needs_dictionaries(&self) -> bool {
        self.columns.first().into_iter().flatten().any(needs_vocabulary)
    }

    /// The field that the column of a number is in.
    fn field_of_column(&self, index: usize) -> Option<usize> {
        let mut first = 0;
        self.fields.iter().position(|field| {
            first += field.columns.len();
            index < first
        })
    }

    /// The columns of which codes are delivered: their numbers, the names of their tensors (of the column, in a stack),
    /// values, and whether these are text.
    pub fn dictionaries(&self) -> impl Iterator<Item = (usize, &str, &Vocabulary, bool)> {
        let columns = self.columns.first().into_iter().flatten().enumerate();
        columns.filter_map(|(index, column)| {
            let vocabulary = column.vocabulary.as_deref()?;
            let field = self.field_of_column(index).map(|field| &self.fields[field])?;
            if field.kind == Kind::Length {
                return None;
            }
            let name = if field.is_stacked { &column.name } else { &field.name };
            let is_text = matches!(column.shaping, Shaping::Coded(_, true));
            Some((index, name.as_str(), vocabulary, is_text))
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

    /// Has each field by itself: those of another layout are bundled otherwise.
    pub fn unbundle(&mut self) {
        let flat = self.fields.iter().enumerate().filter(|(_, field)| field.is_flat());
        self.bundles = flat.map(|(index, _)| vec![index]).collect();
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

fn needs_vocabulary(column: &Column) -> bool {
    matches!(column.shaping, Shaping::Coded(..)) && column.vocabulary.is_none()
}

/// Refuses a name that two tensors have, masks among them.
fn check_names(fields: &[Field]) -> Result<()> {
    let mut taken: HashSet<String> = HashSet::new();
    let masks = fields.iter().filter(|field| field.is_masked() && !field.kind.is_jagged());
    let masks = masks.map(|field| format!("{}_valid", field.name));
    for name in fields.iter().map(|field| field.name.clone()).chain(masks) {
        if let Some(name) = taken.replace(name) {
            return Err(Error::Argument(format!(
                "two tensors are called '{name}': a mask (_valid) or lengths (_length), and another; .alias(name) gives \
                 one of them another name"
            )));
        }
    }
    Ok(())
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
                // No marks: few lists have null elements.
                let element_bytes = field.dtype.width() as u64;
                manifest.jagged_row_bytes(schema, *place).saturating_mul(element_bytes) / width(place)
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
