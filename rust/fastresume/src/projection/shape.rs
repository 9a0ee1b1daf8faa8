//! What becomes of the values of a column: casts, buckets, codes, and what stands for nulls.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::projection::fill::{Fill, bits_of, nearest_to};
use crate::projection::padding::Padding;
use crate::projection::request::{Codes, ColumnRules, Pad, Policy};
use crate::schema::columns::{Column, Dtype, Given, Kind, Stored};
use crate::schema::nulls::Nulls;
use crate::schema::shaping::{Clip, Shaping};
use crate::schema::vocabulary::Vocabulary;

/// What each is for, as errors say it.
const HASHED: &str =
    "texts, bytes, integers and lists of them (of bools and whole floats: .cast(torch.int64).hash(buckets))";
const SPLIT: &str = "texts and bytes";
const CLIPPED: &str = "integers, floats, and lists of them";
const CAST: &str = "numbers and lists of them (.hash(buckets) and .codes() make numbers of texts)";
const CODED: &str = "texts, bytes and lists of them; for integers, subtract in dataset.map(function), as batch['x'] - 1, or look \
                     them up in a dict there (.hash(buckets) takes them, if some may share a bucket)";
const PADDED: &str = "texts, bytes and lists of numbers that differ in length; of lists in lists, .fixed((None, k)) before \
                      it says that the inner ones have k each; of texts in lists, .codes() or .hash(buckets) is \
                      before it";

/// Makes of a column, given as it is in each schema, what is asked.
///
/// # Errors
/// `Data` if it can't become that.
pub fn shape(columns: &mut [Column], rules: &ColumnRules) -> Result<()> {
    let unfit = |method: &str, what: &str, columns: &[Column]| {
        let type_name = columns.first().map_or_else(String::new, |column| column.type_of_rows().into_owned());
        Error::data(format!(".{method}() takes no column of type {type_name}: it takes {what}"))
    };
    if let Some(separator) = &rules.split {
        if !columns.iter().all(can_be_split) {
            return Err(unfit("split", SPLIT, columns));
        }
        for column in columns.iter_mut() {
            split(column, separator);
        }
    }
    if let Some(codes) = &rules.codes {
        if !columns.iter().all(can_be_coded) {
            return Err(unfit("codes", CODED, columns));
        }
        code(columns, codes)
    } else if let Some(buckets) = rules.hash {
        if !can_be_hashed(columns, rules.cast.is_some()) {
            return Err(unfit("hash", HASHED, columns));
        }
        let are_bytes = are_bytes(columns);
        for column in columns {
            let Some(unshaped) = column.dtype else { continue };
            column.shaping = Shaping::Hashed(unshaped, buckets);
            column.unit = Some(buckets.unit());
            column.dtype = Some(Dtype::Int64);
            if are_bytes {
                (column.kind, column.size) = (numbers_kind(column), None);
            }
        }
        Ok(())
    } else if let Some(bounds) = rules.clip {
        let is_bool = |column: &Column| column.dtype == Some(Dtype::Bool);
        if !can_be_cast(columns) || columns.iter().any(is_bool) {
            return Err(unfit("clip", CLIPPED, columns));
        }
        columns.iter_mut().try_for_each(|column| clip(column, bounds, rules))
    } else if let Some(to) = rules.cast {
        if !can_be_cast(columns) {
            return Err(unfit("cast", CAST, columns));
        }
        for column in columns {
            if let Some(unshaped) = column.dtype.replace(to).filter(|unshaped| *unshaped != to) {
                let is_rounding = rules.is_rounding;
                column.shaping =
                    if is_rounding { Shaping::Rounded(unshaped) } else { Shaping::Cast(unshaped) };
            }
        }
        Ok(())
    } else {
        Ok(())
    }
}

/// Makes lists of texts.
fn split(column: &mut Column, separator: &Arc<[u8]>) {
    column.kind = if column.kind == Kind::String { Kind::Strings } else { Kind::Binaries };
    column.type_name = format!("list<{}>", column.type_name);
    column.lists = 1;
    column.separator = Some(Arc::clone(separator));
}

/// Makes codes of a column; their vocabulary is made here if its values are named.
fn code(columns: &mut [Column], codes: &Codes) -> Result<()> {
    let named =
        codes.values.as_ref().map(|values| Vocabulary::of_named(values, codes.unknown)).transpose()?;
    let named = named.map(Arc::new);
    for column in columns {
        let Some(unshaped) = column.dtype else { continue };
        let is_text = matches!(column.kind, Kind::String | Kind::Strings);
        column.shaping = Shaping::Coded(unshaped, is_text);
        column.dtype = Some(Dtype::Int64);
        column.kind = numbers_kind(column);
        column.unit = named.as_ref().map(|vocabulary| format!("dictionary[{}]", vocabulary.len()));
        column.vocabulary.clone_from(&named);
    }
    Ok(())
}

/// Keeps the numbers of a column between bounds, and casts them.
fn clip(column: &mut Column, bounds: [Option<Fill>; 2], rules: &ColumnRules) -> Result<()> {
    let Some(unshaped) = column.dtype else { return Ok(()) };
    let bits = |bound: Fill| {
        bits_of(bound, unshaped).ok_or_else(|| {
            let what = what_it_is(column, bound, unshaped);
            Error::Argument(format!("the bound {bound} does not fit, the column is {what}"))
        })
    };
    let [low, high] = bounds.map(|bound| bound.map(bits).transpose());
    column.shaping =
        Shaping::Clipped(unshaped, Clip { bounds: [low?, high?], is_rounding: rules.is_rounding });
    column.dtype = Some(rules.cast.unwrap_or(unshaped));
    Ok(())
}

/// What the rows of a column are if numbers stand for its texts or bytes.
fn numbers_kind(column: &Column) -> Kind {
    match column.lists {
        _ if column.is_flat() => Kind::Scalar,
        1 => Kind::List,
        _ => Kind::Lists,
    }
}

/// How a column is padded whose rows differ in length.
///
/// # Errors
/// `Data` if they don't, or are lists of lists; `Argument` if the value does not fit.
pub fn padding(column: &Column, pad: &Pad) -> Result<Padding> {
    let dtype = column.dtype.filter(|_| column.depth() == 1);
    let Some(dtype) = dtype else {
        let number = match column.shaping {
            Shaping::Hashed(..) => "bucket",
            Shaping::Coded(..) => "code",
            _ => "",
        };
        if !number.is_empty() && column.kind == Kind::Scalar {
            let reason =
                format!("a {number} is one number for each row, so that .pad() has nothing to fill up");
            return Err(Error::data(reason));
        }
        let type_name = column.type_of_rows();
        return Err(Error::data(format!(".pad() takes no column of type {type_name}: it takes {PADDED}")));
    };
    if pad.size == 0 {
        return Err(Error::Argument(".pad() says that rows have 0 elements".into()));
    }
    let value = pad.value;
    let bits = bits_of(value, dtype).ok_or_else(|| {
        let (type_name, nearest) = (dtype.name(), nearest_to(value, dtype));
        Error::Argument(format!("the pad value {value} does not fit, the column is {type_name}{nearest}"))
    })?;
    Ok(Padding { size: pad.size, of: column.elements(), bits, at: pad.at, kept: pad.kept })
}

/// What becomes of the nulls of a column.
///
/// # Errors
/// `Argument` if a value that is to stand for them does not fit.
pub fn nulls(column: &Column, policy: Policy) -> Result<Nulls> {
    let Policy::Fill(value) = policy else {
        return Ok(if policy == Policy::Mask { Nulls::Masked } else { Nulls::Refused });
    };
    if matches!(column.kind, Kind::String | Kind::Binary | Kind::Strings | Kind::Binaries) {
        return match value {
            Fill::Truth(_) => Err(Error::Argument(format!(
                "the fill value {value} does not fit, the column is {}: any number makes an empty one of a null",
                column.kind.name(column.depth())
            ))),
            Fill::Integer(_) | Fill::Float(_) | Fill::Empty => Ok(Nulls::Filled(0)),
        };
    }
    let dtype = column.dtype.unwrap_or(Dtype::Uint8);
    let bits = bits_of(value, dtype);
    let is_one = |bits: &u64| match column.shaping {
        Shaping::Hashed(_, buckets) => *bits < buckets.count,
        _ => true,
    };
    bits.filter(is_one).map(Nulls::Filled).ok_or_else(|| {
        let what = match column.shaping {
            Shaping::Hashed(_, buckets) => format!("one of {} buckets", buckets.count),
            _ => what_it_is(column, value, dtype),
        };
        Error::Argument(format!("the fill value {value} does not fit, the column is {what}"))
    })
}

/// The type of a column that does not hold a value, and what to write: of a decimal, its integers are no amounts.
fn what_it_is(column: &Column, value: Fill, dtype: Dtype) -> String {
    let name = dtype.name();
    match column.stored {
        Stored::Decimal { scale: scale @ 1.., .. } if dtype == Dtype::Int64 => format!(
            "{name}: {} in units of 10^-{scale}; write .decimal(\"float64\") before it to name an amount",
            column.type_name
        ),
        _ => format!("{name}{}", nearest_to(value, dtype)),
    }
}

/// Whether the values of a column are bytes, which are no numbers: as files hold them that have it.
fn are_bytes(of_schemas: &[Column]) -> bool {
    of_schemas.iter().any(|column| match column.stored {
        Stored::Fixed(_) | Stored::Bytes => true,
        Stored::Decimal { .. } => column.dtype == Some(Dtype::Uint8),
        _ => matches!(column.kind, Kind::String | Kind::Binary),
    })
}

fn can_be_cast(of_schemas: &[Column]) -> bool {
    let are_numbers = |column: &Column| {
        matches!(column.kind, Kind::Scalar | Kind::List | Kind::Lists) && column.dtype.is_some()
    };
    of_schemas.iter().all(are_numbers) && !are_bytes(of_schemas)
}

/// All numbers can be hashed as the integers that a cast makes of them.
fn can_be_hashed(of_schemas: &[Column], are_cast: bool) -> bool {
    let are_integers = of_schemas.iter().all(|column| column.dtype.is_some_and(Dtype::is_integer));
    let are_numbers = (are_cast || are_integers) && can_be_cast(of_schemas);
    are_numbers || !are_cast && are_bytes(of_schemas)
}

fn can_be_split(column: &Column) -> bool {
    let are_texts = matches!(column.kind, Kind::String | Kind::Binary);
    let has_value = matches!(column.given, Some(Given::File | Given::Member | Given::NullMember));
    are_texts && !has_value && matches!(column.stored, Stored::Bytes | Stored::Nothing)
}

fn can_be_coded(column: &Column) -> bool {
    matches!(column.kind, Kind::String | Kind::Binary | Kind::Strings | Kind::Binaries)
        && matches!(column.stored, Stored::Bytes | Stored::Nothing | Stored::NullElements)
}
