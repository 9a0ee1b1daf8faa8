//! Columns that are delivered together, as one matrix.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::projection::column_rules::pick;
use crate::projection::field::Field;
use crate::schema::columns::{Column, Dtype, Kind};
use crate::schema::shaping::Shaping;

/// What the user asked to be stacked: a name, and the names or patterns of its columns.
pub type Stack = (String, Vec<String>);

/// The stack that each column is in, if it is in one.
pub fn members<'a>(agreed: &[Vec<Column>], stacks: &'a [Stack]) -> Result<HashMap<String, &'a str>> {
    let names: Vec<&str> = agreed
        .iter()
        .filter_map(|of_schemas| of_schemas.first())
        .map(|column| column.name.as_str())
        .collect();
    let mut taken: HashMap<String, &str> = HashMap::new();
    for (name, patterns) in stacks {
        let picked =
            pick(&names, patterns).map_err(|error| Error::data(format!("in the stack '{name}': {error}")))?;
        for member in picked {
            if let Some(other) = taken.insert(member.to_owned(), name) {
                return Err(Error::Argument(format!(
                    "the column '{member}' is in the stacks '{other}' and '{name}'"
                )));
            }
        }
    }
    Ok(taken)
}

/// The tensors of the selected columns, those of each stack in one matrix behind the others.
pub fn stacked(selected: &[&Column], stacks: &[Stack], taken: &HashMap<String, &str>) -> Result<Vec<Field>> {
    let names: Vec<&str> = selected.iter().map(|column| column.name.as_str()).collect();
    let by_name: HashMap<&str, &Column> = names.iter().copied().zip(selected.iter().copied()).collect();
    let mut matrices = Vec::with_capacity(stacks.len());
    for (name, patterns) in stacks {
        let members = pick(&names, patterns)?;
        let members: Vec<&Column> =
            members.into_iter().filter_map(|name| by_name.get(name).copied()).collect();
        if let Some(jagged) = members.iter().find(|member| member.kind.is_jagged()) {
            let reason =
                format!("a {} can't be stacked, as in '{name}': its rows differ in length", jagged.type_name);
            return Err(Error::data(reason).in_column(&jagged.name));
        }
        if let Some(wide) = members.iter().find(|member| member.size.is_some()) {
            let reason = format!("a {} can't be stacked, as in '{name}': it is a matrix", wide.type_name);
            return Err(Error::data(reason).in_column(&wide.name));
        }
        let Some(first) = members.first().copied() else {
            return Err(Error::Argument(format!("the stack '{name}' names no column")));
        };
        if let Some(other) = members.iter().find(|member| member.dtype != first.dtype) {
            return Err(Error::data(format!(
                "the stack '{name}' holds columns of more than one type: '{}' is {}, '{}' is {}; cast= makes them one",
                first.name,
                delivered_as(first),
                other.name,
                delivered_as(other)
            )));
        }
        let is_one_unit = members.iter().all(|member| member.unit == first.unit);
        let names = members.iter().map(|member| member.name.clone()).collect();
        let matrix = Field::new(name.clone(), deliverable(first)?, Kind::Scalar, names);
        let unit = first.unit.clone().filter(|_| is_one_unit);
        matrices.push(Field { unit, is_stacked: true, ..matrix });
    }
    let mut fields = Vec::with_capacity(selected.len());
    for column in selected.iter().filter(|column| !taken.contains_key(column.name.as_str())) {
        let name = column.name.clone();
        let field = Field::new(name.clone(), deliverable(column)?, column.kind, vec![name]);
        let (sizes, unit) = (column.sizes.clone(), column.unit.clone());
        fields.push(Field { size: column.size, sizes, unit, ..field });
    }
    fields.append(&mut matrices);
    Ok(fields)
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
