//! Integers that a cast does not hold, as far as footers show them before a value is read.

use crate::dataset::manifest::Manifest;
use crate::error::shown;
use crate::format::metadata::integer_bounds::IntegerBounds;
use crate::projection::field::Field;
use crate::projection::schemas::places;
use crate::schema::columns::{Column, Dtype, Kind};
use crate::schema::shaping::Shaping;

/// Of each column of each field, once, what a user should know before such a value ends a pass.
///
/// Rows that are left out may hold it, and a float type holds some integers beyond those that it holds all of: it need not be
/// wrong.
#[must_use]
pub fn find(fields: &[Field], columns: &[Vec<Column>], manifest: &Manifest) -> Vec<String> {
    let mut index = 0;
    let mut found = Vec::new();
    for field in fields {
        for _ in &field.columns {
            let suspects = columns.iter().enumerate().filter(|_| field.kind != Kind::Length);
            let misfits =
                suspects.filter_map(|(schema, columns)| of_column(&columns[index], manifest, schema));
            if let Some((column, what)) = misfits.max_by_key(|(_, what)| what.beyond) {
                found.push(what.message(field.text.as_deref(), column, manifest));
            }
            index += 1;
        }
    }
    found
}

/// An integer that does not fit, and the file that holds it.
struct Misfit {
    integer: i128,
    /// How far it is beyond what fits.
    beyond: i128,
    file: usize,
    to: Dtype,
    limit: i128,
}

fn of_column<'a>(column: &'a Column, manifest: &Manifest, schema: usize) -> Option<(&'a Column, Misfit)> {
    let (Shaping::Cast(_), Some(to)) = (column.shaping, column.dtype) else { return None };
    let stated = manifest.schema(schema);
    let place = places(&stated.columns).get(column.name.as_str()).copied()?;
    let &(IntegerBounds { least, greatest }, files) = stated.bounds.get(&place)?;
    let fits = exact(to);
    let below = Misfit { integer: least, beyond: fits[0] - least, file: files[0], to, limit: fits[0] };
    let above = Misfit { integer: greatest, beyond: greatest - fits[1], file: files[1], to, limit: fits[1] };
    let worst = if below.beyond > above.beyond { below } else { above };
    (worst.beyond > 0).then_some((column, worst))
}

impl Misfit {
    fn message(&self, text: Option<&str>, column: &Column, manifest: &Manifest) -> String {
        let Self { integer, file, to, limit, .. } = self;
        let path = shown(&manifest.files()[*file].path);
        let expression = text.map_or_else(String::new, |text| format!("{text}: "));
        let name = to.name();
        let held = if to.is_float() {
            format!("{name} does not hold every integer beyond {limit}")
        } else {
            format!("{name} ends at {limit}")
        };
        let rounded = format!(", and .cast(torch.{name}, rounding=True) takes the nearest");
        let rounded = if to.is_float() { rounded } else { String::new() };
        format!(
            "{expression}footers show {integer} in the column '{}' (file '{path}'), and {held}. A row with one that it does \
             not hold will be a DataError: .cast({}) holds it{rounded}",
            column.name,
            wider(*integer, *to)
        )
    }
}

/// The integers all of which a type holds: the first and the last.
fn exact(dtype: Dtype) -> [i128; 2] {
    let digits = match dtype {
        Dtype::Bool => return [0, 1],
        Dtype::Bfloat16 => 8,
        Dtype::Float16 => 11,
        Dtype::Float32 => 24,
        Dtype::Float64 => 53,
        integer => {
            let bits = 8 * integer.width();
            return if integer.is_signed() {
                [-(1 << (bits - 1)), (1 << (bits - 1)) - 1]
            } else {
                [0, (1 << bits) - 1]
            };
        }
    };
    [-(1 << digits), 1 << digits]
}

/// What to write for a type of the same sort, else of integers, that holds an integer.
fn wider(integer: i128, than: Dtype) -> &'static str {
    let holds = |dtype: Dtype| (exact(dtype)[0]..=exact(dtype)[1]).contains(&integer);
    if than.is_float() && holds(Dtype::Float32) {
        "torch.float32"
    } else if than.is_float() && holds(Dtype::Float64) {
        "torch.float64"
    } else if holds(Dtype::Int64) {
        "torch.int64"
    } else {
        "torch.uint64"
    }
}
