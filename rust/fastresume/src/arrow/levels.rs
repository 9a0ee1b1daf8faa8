//! The way down to a leaf, for some rows: where their values are, and the levels that say so.

use crate::arrow::array::{Array, contradicts};
use crate::arrow::field::{Field, Form};
use crate::error::{Error, Result};
use crate::memory::vectors::room_for;

/// No value is there: something above it is null or empty.
pub const GONE: usize = usize::MAX;

/// Which values of an array there are.
#[derive(Debug)]
pub enum At {
    /// All of a range: its start and length.
    Run(usize, usize),
    /// Each of these, or none.
    Each(Vec<usize>),
}

/// What was met on the way from rows down to some array.
#[derive(Debug)]
pub struct Walk {
    /// The values, one for each level.
    pub at: At,
    /// The definition level of what is there.
    pub level: u8,
    /// The definition levels of what is not, in their places.
    definition: Vec<u8>,
    /// The repetition levels, where there are lists.
    repetition: Vec<u8>,
    /// How many lists were met.
    lists: u8,
}

/// The levels of some rows.
#[derive(Debug, Default)]
pub struct Levels {
    /// How many there are.
    pub count: usize,
    /// The definition levels; none if all are `same`.
    pub definition: Vec<u8>,
    /// The level of all, if none are told.
    pub same: u8,
    /// The repetition levels; none if all are 0.
    pub repetition: Vec<u8>,
}

impl Walk {
    /// Begins with some rows.
    #[must_use]
    pub fn of_rows(start: usize, length: usize) -> Self {
        Self {
            at: At::Run(start, length),
            level: 0,
            definition: Vec::new(),
            repetition: Vec::new(),
            lists: 0,
        }
    }

    fn count(&self) -> usize {
        match &self.at {
            At::Run(_, length) => *length,
            At::Each(each) => each.len(),
        }
    }

    /// Each value by itself, with room for its level.
    fn each(&mut self) -> Result<(&mut Vec<usize>, &mut Vec<u8>)> {
        if let At::Run(start, length) = self.at {
            let mut each = Vec::new();
            room_for(&mut each, length)?;
            each.extend(start..start + length);
            self.at = At::Each(each);
            room_for(&mut self.definition, length)?;
            self.definition.clear();
            self.definition.resize(length, 0);
        }
        let Self { at: At::Each(each), definition, .. } = self else {
            return Err(contradicts("it has no rows"));
        };
        Ok((each, definition))
    }

    /// Goes into an array of a field: leaves out what is null, and follows indices and runs to what they stand for.
    ///
    /// # Errors
    /// `Data` if something is null that may not be, or parts of the array contradict each other.
    pub fn enter<'a>(
        &mut self,
        mut field: &'a Field,
        mut array: &'a Array,
        is_nullable: bool,
    ) -> Result<(&'a Field, &'a Array)> {
        let name = &field.name;
        let mut has_nulls = false;
        loop {
            has_nulls |= self.leave_out_nulls(field, array)?;
            if let Some(values) = &field.dictionary {
                let indices = array;
                array =
                    array.dictionary.as_deref().ok_or_else(|| contradicts("the dictionary is missing"))?;
                self.map(|place| indices.index(field, place))?;
                field = values;
            } else if field.form == Form::Runs {
                let (of, runs, mut hint) = (field, array, 0);
                self.map(|place| {
                    hint = runs.run(of, place, hint)?;
                    Ok(hint)
                })?;
                field = field.children.get(1).ok_or_else(|| contradicts("a child is missing"))?;
                array = array.child(1)?;
            } else {
                break;
            }
        }
        if has_nulls && !is_nullable {
            return Err(Error::data(format!("'{name}' is declared to have no nulls, and has one")));
        }
        self.level += u8::from(is_nullable);
        Ok((field, array))
    }

    /// Marks null values as gone; whether there are some.
    fn leave_out_nulls(&mut self, field: &Field, array: &Array) -> Result<bool> {
        let (is_null, level) = (field.form == Form::Null, self.level);
        match &self.at {
            At::Run(_, 0) => return Ok(false),
            At::Run(start, length) => {
                let end = start.checked_add(*length).filter(|end| *end <= array.length);
                end.ok_or_else(|| contradicts("it has fewer values than rows"))?;
                if !is_null && array.are_valid(*start, *length) {
                    return Ok(false);
                }
            }
            At::Each(_) if !is_null && array.validity.is_none() => return Ok(false),
            At::Each(_) => {}
        }
        let (each, definition) = self.each()?;
        let mut found = false;
        for (place, told) in each.iter_mut().zip(definition) {
            if *place != GONE && (is_null || !array.is_valid(*place)?) {
                (*place, *told, found) = (GONE, level, true);
            }
        }
        Ok(found)
    }

    /// Puts other places in place of those that are there.
    fn map(&mut self, mut of: impl FnMut(usize) -> Result<usize>) -> Result<()> {
        let (each, _) = self.each()?;
        for place in each.iter_mut().filter(|place| **place != GONE) {
            *place = of(*place)?;
        }
        Ok(())
    }

    /// Goes from an array to one of its children.
    ///
    /// # Errors
    /// `Data` if parts of the array contradict each other.
    pub fn descend<'a>(
        &mut self,
        field: &'a Field,
        array: &'a Array,
        child: usize,
    ) -> Result<(&'a Field, &'a Array)> {
        let below = field.children.get(child).ok_or_else(|| contradicts("a child is missing"))?;
        let to = array.child(child)?;
        if field.form == Form::Struct {
            match &mut self.at {
                At::Run(start, _) => *start += array.offset,
                At::Each(each) => {
                    each.iter_mut().filter(|place| **place != GONE).for_each(|place| *place += array.offset);
                }
            }
            return Ok((below, to));
        }
        self.expand(field.form, array)?;
        Ok((below, to))
    }

    /// Goes from lists to their elements.
    fn expand(&mut self, form: Form, lists: &Array) -> Result<()> {
        self.lists += 1;
        let (deeper, level) = (self.lists, self.level);
        let before = std::mem::replace(&mut self.at, At::Run(0, 0));
        let of_rows = self.repetition.is_empty();
        let repetition = std::mem::take(&mut self.repetition);
        let definition = std::mem::take(&mut self.definition);
        if let At::Run(start, length) = before
            && let Some(run) = whole(form, lists, start, length)?
        {
            let mut told = Vec::new();
            room_for(&mut told, run.len())?;
            for (number, place) in (start..start + length).enumerate() {
                let list = lists.list(form, place)?;
                told.push(repetition.get(number).copied().unwrap_or(0));
                told.resize(told.len() + list.len() - 1, deeper);
            }
            self.at = At::Run(run.start, run.len());
            (self.repetition, self.level) = (told, level + 1);
            return Ok(());
        }
        let (mut each, mut levels, mut told) = (Vec::new(), Vec::new(), Vec::new());
        let count = match &before {
            At::Run(_, length) => *length,
            At::Each(each) => each.len(),
        };
        for number in 0..count {
            let (place, gone) = match &before {
                At::Run(start, _) => (start + number, 0),
                At::Each(each) => (each[number], definition[number]),
            };
            let first = if of_rows { 0 } else { repetition[number] };
            let list = if place == GONE { 0..0 } else { lists.list(form, place)? };
            let room = list.len().max(1);
            room_for(&mut each, room)?;
            room_for(&mut levels, room)?;
            room_for(&mut told, room)?;
            told.push(first);
            if list.is_empty() {
                each.push(GONE);
                levels.push(if place == GONE { gone } else { level });
                continue;
            }
            told.resize(told.len() + list.len() - 1, deeper);
            levels.resize(levels.len() + list.len(), 0);
            each.extend(list);
        }
        (self.at, self.definition, self.repetition) = (At::Each(each), levels, told);
        self.level = level + 1;
        Ok(())
    }

    /// The levels, at the end of the way.
    #[must_use]
    pub fn levels(&mut self) -> Levels {
        let mut found = Levels { count: self.count(), same: self.level, ..Levels::default() };
        found.repetition = std::mem::take(&mut self.repetition);
        if let At::Each(each) = &self.at {
            let mut definition = std::mem::take(&mut self.definition);
            for (place, told) in each.iter().zip(&mut definition) {
                if *place != GONE {
                    *told = self.level;
                }
            }
            found.definition = definition;
        }
        found
    }
}

/// The elements of lists, if none is empty and they lie behind one another.
fn whole(form: Form, lists: &Array, start: usize, length: usize) -> Result<Option<std::ops::Range<usize>>> {
    if length == 0 || matches!(form, Form::ListViews { .. }) {
        return Ok(None);
    }
    let first = lists.list(form, start)?;
    let mut end = first.start;
    for number in 0..length {
        let list = lists.list(form, start + number)?;
        if list.is_empty() || list.start != end {
            return Ok(None);
        }
        end = list.end;
    }
    Ok(Some(first.start..end))
}
