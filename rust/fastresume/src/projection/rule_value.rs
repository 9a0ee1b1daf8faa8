//! What a rule of columns or units says, as plain values; and the values of rules, as it says them.

use crate::error::{Error, Result};
use crate::projection::fill::Fill;
use crate::projection::padding::End;
use crate::schema::types::Dtype;

/// What a rule says: one value, or several.
#[derive(Debug, Clone, PartialEq)]
pub enum RuleValue {
    /// Nothing.
    Nothing,
    /// True or false.
    Truth(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several values.
    List(Vec<Self>),
}

impl RuleValue {
    /// Itself as what a rule takes.
    ///
    /// # Errors
    /// `Argument` if it is none.
    pub fn read<T: OfRule>(self) -> Result<T> {
        T::of_rule(self)
    }

    fn refused<T>(&self, expected: &str) -> Result<T> {
        Err(Error::Argument(format!("a rule takes {expected}, found {self:?}")))
    }
}

/// What rules take.
pub trait OfRule: Sized {
    /// It, as a rule says it.
    ///
    /// # Errors
    /// `Argument` if that is something else.
    fn of_rule(value: RuleValue) -> Result<Self>;
}

impl OfRule for bool {
    fn of_rule(value: RuleValue) -> Result<Self> {
        if let RuleValue::Truth(truth) = value { Ok(truth) } else { value.refused("True or False") }
    }
}

/// A number that is no size is refused by its type.
macro_rules! integers {
    ($($type:ty),*) => {
        $(impl OfRule for $type {
            fn of_rule(value: RuleValue) -> Result<Self> {
                let found = if let RuleValue::Integer(number) = value { number.try_into().ok() } else { None };
                found.map_or_else(|| value.refused("an integer of 64 bits, at least 0"), Ok)
            }
        })*
    };
}

integers!(u64, usize);

impl OfRule for String {
    fn of_rule(value: RuleValue) -> Result<Self> {
        if let RuleValue::Text(text) = value { Ok(text) } else { value.refused("a text") }
    }
}

/// A text, or bytes.
impl OfRule for Vec<u8> {
    fn of_rule(value: RuleValue) -> Result<Self> {
        match value {
            RuleValue::Text(text) => Ok(text.into_bytes()),
            RuleValue::Bytes(bytes) => Ok(bytes),
            other => other.refused("a text, or bytes"),
        }
    }
}

impl OfRule for Fill {
    fn of_rule(value: RuleValue) -> Result<Self> {
        match value {
            RuleValue::Truth(truth) => Ok(Self::Truth(truth)),
            RuleValue::Integer(number) => Ok(Self::Integer(number)),
            RuleValue::Float(number) => Ok(Self::Float(number)),
            RuleValue::Text(text) if text.is_empty() => Ok(Self::Empty),
            other => other.refused("a number"),
        }
    }
}

impl OfRule for Dtype {
    fn of_rule(value: RuleValue) -> Result<Self> {
        let found = if let RuleValue::Text(name) = &value { Self::of_name(name) } else { None };
        found.map_or_else(|| value.refused("the name of a dtype"), Ok)
    }
}

/// The end of a row that a word names.
impl OfRule for End {
    fn of_rule(value: RuleValue) -> Result<Self> {
        match &value {
            RuleValue::Text(word) if word == "head" || word == "left" => Ok(Self::Head),
            RuleValue::Text(word) if word == "tail" || word == "right" => Ok(Self::Tail),
            _ => value.refused("'head' or 'tail', 'left' or 'right'"),
        }
    }
}

impl<T: OfRule> OfRule for Option<T> {
    fn of_rule(value: RuleValue) -> Result<Self> {
        if value == RuleValue::Nothing { Ok(None) } else { T::of_rule(value).map(Some) }
    }
}

/// Any number of values of one kind.
pub struct Several<T>(pub Vec<T>);

impl<T: OfRule> OfRule for Several<T> {
    fn of_rule(value: RuleValue) -> Result<Self> {
        let RuleValue::List(values) = value else { return value.refused("several values") };
        values.into_iter().map(T::of_rule).collect::<Result<_>>().map(Self)
    }
}

/// So many values, each of its own kind.
macro_rules! tuples {
    ($count:literal, $($name:ident: $type:ident),*) => {
        impl<$($type: OfRule),*> OfRule for ($($type,)*) {
            fn of_rule(value: RuleValue) -> Result<Self> {
                let RuleValue::List(values) = value else { return value.refused("several values") };
                let Ok([$($name),*]) = <[RuleValue; $count]>::try_from(values) else {
                    return Err(Error::Argument(format!("a rule takes {} values", $count)));
                };
                Ok(($($name.read()?,)*))
            }
        }
    };
}

tuples!(2, one: A, two: B);
tuples!(3, one: A, two: B, three: C);
tuples!(4, one: A, two: B, three: C, four: D);
