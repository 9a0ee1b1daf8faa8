//! The way down to a leaf, for some rows: where their values are, and the levels that say so.

use std::ops::Range;

use crate::arrow::array::{Array, contradicts};
use crate::arrow::bits::Bits;
use crate::arrow::field::{ArrowField, ArrowForm};
use crate::error::{Error, Result};
use crate::memory::vectors::{collected_results, resize, room_for};

/// The level of what is there, until it is known.
const THERE: u8 = u8::MAX;

/// Which values of an array there are.
#[derive(Debug)]
pub enum At {
    /// All of a range: its start and length.
    Run(usize, usize),
    /// Those from a start on of which a bit is 1.
    Some(usize, Bits),
    /// Each of these.
    Each(Vec<usize>),
}

/// Which levels have a value.
#[derive(Debug, Clone)]
enum Definition {
    /// All.
    All,
    /// Those of which a bit is 1. The others have this level.
    Some(Bits, u8),
    /// The level of each: what is there has `THERE`.
    Each(Vec<u8>),
}

/// What was met on the way from rows down to some array.
#[derive(Debug)]
pub struct Walk {
    /// The values that are there.
    pub at: At,
    /// The definition level of what is there.
    pub level: u8,
    /// How many levels there are.
    count: usize,
    definition: Definition,
    /// The repetition levels, where there are lists.
    repetition: Vec<u8>,
    /// How many lists were met.
    lists: u8,
    /// So many levels are noted at most.
    most: usize,
}

/// The levels of some rows.
#[derive(Debug)]
pub struct ArrowLevels {
    /// How many there are.
    pub count: usize,
    /// The repetition levels; none if all are 0.
    pub repetition: Vec<u8>,
    /// The level of what is there.
    there: u8,
    definition: Definition,
}

/// The definition levels of some rows.
#[derive(Debug)]
pub enum DefinitionLevels {
    /// All are the same.
    Same(u8),
    /// Bits: 0 or 1.
    Bits(Bits),
    /// The level of each.
    Each(Vec<u8>),
}

impl ArrowLevels {
    /// The definition levels, in the form in which they are known.
    ///
    /// # Errors
    /// `Argument` if there is no memory for them.
    pub fn definition(self) -> Result<DefinitionLevels> {
        let there = self.there;
        Ok(match self.definition {
            Definition::All => DefinitionLevels::Same(there),
            Definition::Some(bits, 0) if there == 1 => DefinitionLevels::Bits(bits),
            Definition::Some(bits, gone) => {
                let mut levels = Vec::new();
                room_for(&mut levels, bits.count())?;
                levels.extend(bits.each().map(|is_there| if is_there { there } else { gone }));
                DefinitionLevels::Each(levels)
            }
            Definition::Each(mut levels) => {
                levels.iter_mut().filter(|level| **level == THERE).for_each(|level| *level = there);
                DefinitionLevels::Each(levels)
            }
        })
    }
}

impl Walk {
    /// Begins with some rows. More than `most` levels are not noted.
    #[must_use]
    pub fn of_rows(start: usize, length: usize, most: usize) -> Self {
        Self {
            at: At::Run(start, length),
            level: 0,
            count: length,
            definition: Definition::All,
            repetition: Vec::new(),
            lists: 0,
            most,
        }
    }

    /// Whether there are more levels than are noted.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.count > self.most
    }

    /// Goes into an array of a field: leaves out what is null, and follows indices and runs to what they stand for.
    ///
    /// # Errors
    /// `Data` if something is null that may not be, or parts of the array contradict each other.
    pub fn enter<'a>(
        &mut self,
        mut field: &'a ArrowField,
        mut array: &'a Array,
        is_nullable: bool,
    ) -> Result<(&'a ArrowField, &'a Array)> {
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
            } else if field.form == ArrowForm::Runs {
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

    /// Leaves out values that are null; whether there are some.
    fn leave_out_nulls(&mut self, field: &ArrowField, array: &Array) -> Result<bool> {
        let is_null = field.form == ArrowForm::Null;
        let kept = match &self.at {
            At::Run(_, 0) => return Ok(false),
            At::Run(start, length) => {
                let end = start.checked_add(*length).filter(|end| *end <= array.length);
                end.ok_or_else(|| contradicts("it has fewer values than rows"))?;
                if is_null {
                    Bits::none(*length)?
                } else if array.are_valid(*start, *length) {
                    return Ok(false);
                } else {
                    array.validity_of(*start, *length)?
                }
            }
            other if is_null => Bits::none(other.count())?,
            _ if array.validity.is_none() => return Ok(false),
            At::Some(start, bits) => Bits::of(bits.places().map(|place| array.is_valid(start + place)))?,
            At::Each(each) => Bits::of(each.iter().map(|&place| array.is_valid(place)))?,
        };
        if kept.are_all() {
            return Ok(false);
        }
        match &mut self.definition {
            Definition::All => self.definition = Definition::Some(kept.clone(), self.level),
            Definition::Some(..) | Definition::Each(_) => {
                let level = self.level;
                let mut kept = kept.each();
                for own in self.each_level()?.iter_mut().filter(|own| **own == THERE) {
                    if kept.next() == Some(false) {
                        *own = level;
                    }
                }
            }
        }
        self.at = match std::mem::replace(&mut self.at, At::Run(0, 0)) {
            At::Run(start, _) => At::Some(start, kept),
            At::Some(start, bits) => {
                let both = bits.places().zip(kept.each()).filter(|(_, is_kept)| *is_kept);
                At::Each(collected_results(both.map(|(place, _)| Ok(start + place)))?)
            }
            At::Each(mut each) => {
                let mut kept = kept.each();
                each.retain(|_| kept.next() == Some(true));
                At::Each(each)
            }
        };
        Ok(true)
    }

    /// The definition levels, each by itself.
    fn each_level(&mut self) -> Result<&mut Vec<u8>> {
        let mut levels = Vec::new();
        match &self.definition {
            Definition::Each(_) => {}
            Definition::All => resize(&mut levels, self.count, THERE)?,
            Definition::Some(bits, gone) => {
                room_for(&mut levels, bits.count())?;
                levels.extend(bits.each().map(|is_there| if is_there { THERE } else { *gone }));
            }
        }
        if !matches!(self.definition, Definition::Each(_)) {
            self.definition = Definition::Each(levels);
        }
        match &mut self.definition {
            Definition::Each(levels) => Ok(levels),
            _ => Err(contradicts("it has no levels")),
        }
    }

    /// Puts other places in place of those that are there.
    fn map(&mut self, mut of: impl FnMut(usize) -> Result<usize>) -> Result<()> {
        let mut each = Vec::new();
        room_for(&mut each, self.at.count())?;
        self.at.each(|place| {
            each.push(of(place)?);
            Ok(())
        })?;
        self.at = At::Each(each);
        Ok(())
    }

    /// Goes from an array to one of its children.
    ///
    /// # Errors
    /// `Data` if parts of the array contradict each other.
    pub fn descend<'a>(
        &mut self,
        field: &'a ArrowField,
        array: &'a Array,
        child: usize,
    ) -> Result<(&'a ArrowField, &'a Array)> {
        let below = field.children.get(child).ok_or_else(|| contradicts("a child is missing"))?;
        let to = array.child(child)?;
        if field.form == ArrowForm::Struct {
            match &mut self.at {
                At::Run(start, _) | At::Some(start, _) => *start += array.offset,
                At::Each(each) => each.iter_mut().for_each(|place| *place += array.offset),
            }
            return Ok((below, to));
        }
        self.expand(field.form, array)?;
        Ok((below, to))
    }

    /// Goes from lists to their elements.
    fn expand(&mut self, form: ArrowForm, lists: &Array) -> Result<()> {
        self.lists += 1;
        let mut found = ListElements::new((self.lists, self.level), self.most);
        let repetition = std::mem::take(&mut self.repetition);
        let definition = std::mem::replace(&mut self.definition, Definition::All);
        let mut place = 0;
        // Between the lists that are there lie the levels of what is not.
        let mut gone_before = |found: &mut ListElements| {
            while let Some(level) = definition.gone(place) {
                found.add_gone(repetition.get(place).copied().unwrap_or(0), level)?;
                place += 1;
            }
            place += 1;
            Ok::<u8, Error>(repetition.get(place - 1).copied().unwrap_or(0))
        };
        std::mem::replace(&mut self.at, At::Run(0, 0)).each(|list| {
            let first = gone_before(&mut found)?;
            if found.is_over() { Ok(()) } else { found.add(first, lists.list(form, list)?) }
        })?;
        while place < self.count {
            let level = definition.gone(place).unwrap_or(self.level);
            found.add_gone(repetition.get(place).copied().unwrap_or(0), level)?;
            place += 1;
        }
        self.count = found.count();
        (self.at, self.repetition) = (found.at, found.repetition);
        self.definition = found.levels.map_or(Definition::All, Definition::Each);
        self.level += 1;
        Ok(())
    }

    /// The levels, at the end of the way.
    #[must_use]
    pub fn levels(&mut self) -> ArrowLevels {
        ArrowLevels {
            count: self.count,
            repetition: std::mem::take(&mut self.repetition),
            there: self.level,
            definition: std::mem::replace(&mut self.definition, Definition::All),
        }
    }
}

impl Definition {
    /// The level of what is not there.
    #[inline]
    fn gone(&self, place: usize) -> Option<u8> {
        match self {
            Self::All => None,
            Self::Some(bits, gone) => (bits.get(place) == Some(false)).then_some(*gone),
            Self::Each(levels) => levels.get(place).copied().filter(|level| *level != THERE),
        }
    }
}

impl At {
    /// How many values are there.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Run(_, length) => *length,
            Self::Some(_, bits) => bits.ones(),
            Self::Each(each) => each.len(),
        }
    }

    /// Calls `add` for each value that is there.
    ///
    /// # Errors
    /// Those of `add`.
    #[inline]
    pub fn each(&self, mut add: impl FnMut(usize) -> Result<()>) -> Result<()> {
        match self {
            Self::Run(start, length) => (*start..start + length).try_for_each(add),
            Self::Some(start, bits) => bits.places().try_for_each(|place| add(start + place)),
            Self::Each(each) => each.iter().try_for_each(|&place| add(place)),
        }
    }
}

/// The elements of lists, and the levels that they have.
struct ListElements {
    at: At,
    /// None as long as all are there.
    levels: Option<Vec<u8>>,
    repetition: Vec<u8>,
    /// The repetition level of what is not the first of its list, and the definition level of an empty list.
    deeper: u8,
    empty: u8,
    most: usize,
}

impl ListElements {
    fn new((deeper, empty): (u8, u8), most: usize) -> Self {
        Self { at: At::Run(0, 0), levels: None, repetition: Vec::new(), deeper, empty, most }
    }

    fn count(&self) -> usize {
        self.repetition.len()
    }

    fn is_over(&self) -> bool {
        self.count() > self.most
    }

    fn add_gone(&mut self, first: u8, level: u8) -> Result<()> {
        let count = self.count();
        let levels = self.levels.get_or_insert_default();
        resize(levels, count, THERE)?;
        room_for(levels, 1)?;
        levels.push(level);
        room_for(&mut self.repetition, 1)?;
        self.repetition.push(first);
        Ok(())
    }

    #[inline]
    fn add(&mut self, first: u8, list: Range<usize>) -> Result<()> {
        if list.is_empty() {
            return self.add_gone(first, self.empty);
        }
        // What is over is cut off: nobody reads it.
        let length = list.len().min(self.most.saturating_sub(self.count()).saturating_add(1));
        room_for(&mut self.repetition, length)?;
        self.repetition.push(first);
        self.repetition.resize(self.repetition.len() + length - 1, self.deeper);
        if let Some(levels) = &mut self.levels {
            resize(levels, self.repetition.len(), THERE)?;
        }
        match &mut self.at {
            At::Run(_, 0) => self.at = At::Run(list.start, length),
            At::Run(start, before) if *start + *before == list.start => *before += length,
            At::Run(start, before) => {
                let mut each = Vec::new();
                room_for(&mut each, *before + length)?;
                each.extend(*start..*start + *before);
                each.extend(list.start..list.start + length);
                self.at = At::Each(each);
            }
            At::Each(each) => {
                room_for(each, length)?;
                each.extend(list.start..list.start + length);
            }
            At::Some(..) => return Err(contradicts("lists have no elements")),
        }
        Ok(())
    }
}
