//! What a tensor is made of: its fields, and the columns of these in each schema.

use std::sync::Arc;

use crate::dataset::hive_partition;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::projection::field::Field;
use crate::projection::request::Policy;
use crate::projection::schemas::Schemas;
use crate::projection::shape;
use crate::projection::tensor_plan::{Make, Part, TensorPlan, within};
use crate::schema::columns::{Column, Dtype, Kind};
use crate::schema::nulls::Nulls;
use crate::schema::shaping::Shaping;

/// What a tensor is made of.
#[derive(Debug)]
pub struct MadeTensor {
    /// Its field, and those that follow it.
    pub fields: Vec<Field>,
    /// Of each column the columns of all schemas.
    pub columns: Vec<Vec<Column>>,
    /// How many fields each of these is in.
    pub counts: Vec<usize>,
}

/// The tensor of a plan; `default` is what becomes of nulls of which nothing is said.
///
/// # Errors
/// `Data` if a column can't be what is asked, or stacked columns differ in type; `Argument` if what is asked contradicts
/// itself.
pub fn made(
    manifest: &Manifest,
    schemas: &Schemas<'_>,
    tensor: &TensorPlan<'_>,
    default: Policy,
) -> Result<MadeTensor> {
    if tensor.make == Make::StructMask {
        let mask = schemas.struct_mask(tensor.parts[0].column)?;
        let columns = tensor.parts.iter().map(|part| part.column.to_owned()).collect();
        let field = Field::new(tensor.name.clone(), Dtype::Bool, Kind::Mask, columns);
        let fields = vec![Field { nulls: vec![Nulls::Filled(0)], text: text_of(tensor), ..field }];
        return Ok(MadeTensor { fields, columns: vec![mask], counts: vec![1] });
    }
    let mut columns = Vec::with_capacity(tensor.parts.len());
    let mut nulls = Vec::with_capacity(tensor.parts.len());
    for part in &tensor.parts {
        let (of_schemas, of_nulls) = column(manifest, schemas, part, default).map_err(|error| {
            let error = part.text.map_or_else(|| error.clone(), |text| within(text, error.clone()));
            error.in_column(part.column)
        })?;
        columns.push(of_schemas);
        nulls.push(of_nulls);
    }
    let each: Vec<&Column> = columns.iter().filter_map(|of_schemas| of_schemas.first()).collect();
    let mut field = match (tensor.make, each.as_slice()) {
        (Make::Stack, each) => stacked(tensor, each).map_err(|error| error.in_file(schemas.first_file()))?,
        (_, [column, ..]) => single(tensor, column)?,
        (_, []) => return Err(Error::Argument("no column is selected".into())),
    };
    let masked = nulls.iter().filter(|nulls| **nulls == Nulls::Masked).count();
    if tensor.make == Make::Stack && masked > 0 && masked < nulls.len() {
        return Err(Error::Argument(format!(
            "{}: the nulls of {masked} of its {} columns are masked: mask all of them, or none",
            tensor.text.unwrap_or_default(),
            nulls.len(),
        )));
    }
    (field.nulls, field.text) = (nulls, text_of(tensor));
    let mut counts = vec![1; columns.len()];
    let marks = (tensor.make != Make::Stack && field.is_masked()).then(|| marks(&columns[0])).flatten();
    let mut fields = match tensor.parts[0].rules.pad.filter(|_| tensor.make != Make::Stack) {
        None => vec![field],
        Some(pad) => {
            let padding = shape::padding(each[0], &pad).map_err(|error| {
                let text = tensor.text.map_or_else(|| error.clone(), |text| within(text, error.clone()));
                text.in_column(&each[0].name).in_file(schemas.first_file())
            })?;
            counts = vec![2];
            field.padded(padding)
        }
    };
    if let Some(marks) = marks.filter(|_| !fields[0].kind.is_jagged()) {
        let are_bytes = marks.first().is_some_and(|column| column.sizes.is_empty() && column.size.is_some());
        fields.push(fields[0].element_marks(are_bytes));
        columns.push(marks);
        counts.push(1);
    }
    Ok(MadeTensor { fields, columns, counts })
}

/// What tells of a column of lists, of each schema, which of their elements are null; of none if it has no lists.
fn marks(of_schemas: &[Column]) -> Option<Vec<Column>> {
    let are_lists = of_schemas.first().is_some_and(|column| column.lists > 0);
    are_lists.then(|| of_schemas.iter().map(Column::element_marks).collect())
}

fn text_of(tensor: &TensorPlan<'_>) -> Option<Arc<str>> {
    tensor.text.map(Arc::from)
}

/// A column of each schema as it is asked for, and what becomes of its nulls.
fn column(
    manifest: &Manifest,
    schemas: &Schemas<'_>,
    part: &Part<'_>,
    default: Policy,
) -> Result<(Vec<Column>, Nulls)> {
    let mut columns = if part.rules.is_of_path {
        vec![hive_partition::column(manifest, part.column, part.rules.is_optional)?; schemas.count()]
    } else {
        schemas.agree(part.column, part.rules)?
    };
    shape::shape(&mut columns, part.rules).map_err(|error| error.in_file(schemas.first_file()))?;
    let first = columns.first().ok_or_else(|| Error::Argument("the dataset has no files".into()))?;
    let nulls = shape::nulls(first, part.rules.nulls.unwrap_or(default))?;
    Ok((columns, nulls))
}

/// The tensor of one column.
fn single(tensor: &TensorPlan<'_>, column: &Column) -> Result<Field> {
    let columns = vec![column.name.clone()];
    let field = Field::new(tensor.name.clone(), deliverable(column)?, column.kind, columns);
    let (sizes, unit) = (column.sizes.clone(), column.unit.clone());
    Ok(Field { depth: column.depth(), size: column.size, sizes, unit, ..field })
}

/// The matrix of columns of one type.
fn stacked(tensor: &TensorPlan<'_>, columns: &[&Column]) -> Result<Field> {
    let text = tensor.text.unwrap_or_default();
    let refused = |reason: String, column: &Column| Error::data(reason).in_column(&column.name);
    if let Some(jagged) = columns.iter().find(|column| column.kind.is_jagged()) {
        let how = match jagged.kind {
            Kind::String | Kind::Binary => ".hash(buckets) or .codes() makes numbers of it",
            _ => "a list is a tensor of its own",
        };
        let reason =
            format!("{text}: a {} can't be stacked: its rows differ in length; {how}", jagged.type_name);
        return Err(refused(reason, jagged));
    }
    if let Some(wide) = columns.iter().find(|column| column.size.is_some()) {
        let reason = format!("{text}: a {} can't be stacked: it is a matrix", wide.type_name);
        return Err(refused(reason, wide));
    }
    let first = columns.first().ok_or_else(|| Error::Argument(format!("{text} names no column")))?;
    if let Some(other) = columns.iter().find(|column| column.dtype != first.dtype) {
        return Err(Error::data(format!(
            "{text} holds columns of more than one type: '{}' is {}, '{}' is {}; .cast(dtype) makes them one, of each part of the stack",
            first.name,
            delivered_as(first),
            other.name,
            delivered_as(other)
        )));
    }
    let decimals: Vec<&Column> = columns.iter().copied().filter(|column| is_decimal(column)).collect();
    if let Some(other) = decimals.iter().find(|column| column.unit != decimals[0].unit) {
        return Err(Error::data(format!(
            "{text} holds decimals of two scales: '{}' is {}, '{}' is {}; .cast(dtype) makes them one, of each part of the stack",
            decimals[0].name, decimals[0].type_name, other.name, other.type_name
        )));
    }
    let is_one_unit = columns.iter().all(|column| column.unit == first.unit);
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let matrix = Field::new(tensor.name.clone(), deliverable(first)?, Kind::Scalar, names);
    let unit = first.unit.clone().filter(|_| is_one_unit);
    Ok(Field { unit, is_stacked: true, ..matrix })
}

/// Whether its numbers count the last digit of decimals, as they are in the files.
fn is_decimal(column: &Column) -> bool {
    column.shaping == Shaping::None && column.unit.as_deref().is_some_and(|unit| unit.starts_with("decimal"))
}

/// The type of a column, for people.
fn delivered_as(column: &Column) -> &str {
    match column.dtype {
        Some(dtype) if column.shaping != Shaping::None => dtype.name(),
        _ => &column.type_name,
    }
}

fn deliverable(column: &Column) -> Result<Dtype> {
    column.dtype.ok_or_else(|| {
        Error::data(format!("the type {} is not supported yet", column.type_name)).in_column(&column.name)
    })
}
