//! What delivers the values of a column that the rules of an expression are not for.

use crate::projection::fill::Fill;
use crate::projection::request::{ColumnRules, Policy};
use crate::projection::schemas::Schemas;
use crate::projection::tensor_plan::{Make, TensorPlan};
use crate::schema::columns::Column;
use crate::schema::types::Dtype;

/// Types of bytes, as errors name them.
const BYTES: [&str; 2] = ["binary", "large_binary"];

/// Types of texts.
const TEXTS: [&str; 2] = ["string", "large_string"];

/// What to write for a tensor that can't be made as it is asked; nothing if that is not known.
#[must_use]
pub fn instead(tensor: &TensorPlan<'_>, schemas: &Schemas<'_>) -> Option<String> {
    let mut parts = tensor.parts.iter().filter_map(|part| Some((part.rules, schemas.first_of(part.column)?)));
    match tensor.make {
        Make::Stack => parts.find_map(|(_, column)| of_texts(column, None)),
        _ => parts.next().and_then(|(rules, column)| of_column(rules, column)),
    }
}

/// Code that makes numbers of the texts of a batch.
#[must_use]
pub fn numbers_of_texts(name: &str, in_lists: bool, dtype: Option<&str>) -> String {
    let number = if dtype.is_some_and(|name| name.contains("int")) { "int" } else { "float" };
    let texts = format!("batch['{name}'].to_strings()");
    if in_lists {
        let values = format!("torch.tensor([{number}(text) for row in {texts} for text in row])");
        return format!("fr.Jagged({values}, batch['{name}'].offsets)");
    }
    format!("torch.tensor([{number}(text) for text in {texts}])")
}

/// What to write for numbers that are texts; nothing for other columns.
fn of_texts(column: &Column, cast: Option<Dtype>) -> Option<String> {
    let inner = column.type_name.strip_prefix("list<").and_then(|inner| inner.strip_suffix('>'));
    TEXTS.contains(&inner.unwrap_or(&column.type_name)).then(|| {
        let made = numbers_of_texts(&column.name, inner.is_some(), cast.map(Dtype::name));
        format!("For numbers in texts deliver the texts, and make {made} in dataset.map(function)")
    })
}

fn of_column(rules: &ColumnRules, column: &Column) -> Option<String> {
    if let Some(Policy::Fill(Fill::Truth(value))) = rules.nulls {
        return Some(format!("Write .fill_null({}): it is a value of the new type", i32::from(value)));
    }
    let (name, of_type) = (&column.name, &*column.type_name);
    let sizes: Vec<usize> = rules.fixed.iter().flatten().copied().flatten().collect();
    let inner = of_type.strip_prefix("list<");
    match (rules.cast, sizes.as_slice()) {
        (Some(dtype), _) if BYTES.contains(&of_type) => {
            let dtype = dtype.name();
            Some(format!("Write .pad(n), for n bytes in each row, and batch['{name}'].view(torch.{dtype})"))
        }
        (_, [size]) if BYTES.contains(&of_type) => Some(matrix_of_bytes(&size.to_string())),
        _ if rules.is_raw && BYTES.contains(&of_type) => Some(matrix_of_bytes("n")),
        (_, [_, ..]) if of_type.starts_with("fixed_size_binary") => {
            Some("Write .raw(), which makes a matrix of them".into())
        }
        (_, [_, _, ..]) if inner.is_some_and(|inner| !inner.contains("list<")) => {
            let shape: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let (all, shape) = (sizes.iter().product::<usize>(), shape.join(", "));
            Some(format!("For one flat list write .fixed({all}), and batch['{name}'].view(-1, {shape})"))
        }
        (cast, _) if cast.is_some() || rules.clip.is_some() || rules.decimal.is_some() => {
            of_texts(column, cast)
        }
        _ => None,
    }
}

fn matrix_of_bytes(size: &str) -> String {
    format!("Write .pad({size}), which makes a matrix of bytes of one length")
}
