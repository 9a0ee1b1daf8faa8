//! A row group of a file, some of whose rows may be damaged: they are masked, if that is asked for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::decode::decoder::{JaggedDecoder, ScalarDecoder};
use crate::decode::mended::Mended;
use crate::decode::open_file::OpenFile;
use crate::decode::survey::{BadRows, Survey, Trial};
use crate::error::{Error, Result, caught, locked};
use crate::format::page::reader::Buffers;
use crate::schema::columns::Column;
use crate::schema::nulls::Nulls;

/// More column chunks with damage are not remembered: they are tried again.
const MOST_SURVEYS: usize = 256;

/// What was found of column chunks with damage, by row group and column.
#[derive(Default)]
pub struct Surveys(Mutex<BTreeMap<(usize, ColumnKey), Arc<Survey>>>);

/// The place of a field in the layout, and that of a column in it.
pub type ColumnKey = (usize, usize);

/// What masks damaged rows.
pub struct Masking<'a> {
    pub surveys: &'a Surveys,
    pub stop: &'a AtomicBool,
    /// The row group, counted over all files, and its rows.
    pub group: usize,
    pub rows: usize,
    /// What was found so far, in rows of the row group.
    pub found: RefCell<Vec<BadRows>>,
}

/// A row group, open for reading.
#[derive(Clone, Copy)]
pub struct GroupFile<'a> {
    /// The file, or why it can't be opened.
    pub file: std::result::Result<&'a OpenFile, &'a Error>,
    pub row_group: usize,
    /// What becomes of damaged rows; an error without it.
    pub masking: Option<&'a Masking<'a>>,
}

/// A column of a field, and what becomes of its nulls.
#[derive(Clone, Copy)]
pub struct FieldColumn<'a> {
    pub key: ColumnKey,
    pub column: &'a Column,
    /// How its decoder treats nulls.
    pub nulls: Nulls,
    /// Whether a mask marks nulls.
    pub is_masked: bool,
}

impl GroupFile<'_> {
    /// The file.
    ///
    /// # Errors
    /// Why it can't be opened.
    pub fn file(&self) -> Result<&OpenFile> {
        self.file.map_err(Clone::clone)
    }

    /// Gives `take` a decoder of a scalar column; where it meets damage that is masked, another one, which delivers
    /// damaged rows as zeros.
    ///
    /// # Errors
    /// As for [`OpenFile::scalars`], and those of `take`.
    pub fn scalars<T>(
        &self,
        of: FieldColumn<'_>,
        buffers: &mut Buffers,
        mut take: impl FnMut(&mut dyn ScalarDecoder) -> Result<T>,
    ) -> Result<T> {
        let FieldColumn { column, nulls, .. } = of;
        let mut tried = || {
            let mut decoder = self.file()?.scalars(self.row_group, column, nulls, buffers)?;
            take(decoder.as_mut())
        };
        let Some(masking) = self.masking else { return tried() };
        match caught(tried) {
            Err(error) if error.is_damage() => {
                let survey = self.survey(masking, of, false, buffers, error)?;
                let mut memory: Vec<Buffers> = survey.good.iter().map(|_| buffers.others()).collect();
                let mut good = Vec::with_capacity(memory.len());
                for (part, buffers) in survey.good.iter().zip(&mut memory) {
                    let file = part.file(self.file()?, self.row_group, column)?;
                    good.push((part.rows.clone(), file.scalars(self.row_group, column, nulls, buffers)?));
                }
                let mut mended: Mended<Box<dyn ScalarDecoder + '_>> =
                    Mended::new(good, column.row_bytes(), of.mark());
                caught(|| take(&mut mended))
            }
            taken => taken,
        }
    }

    /// The same for a jagged column, whose damaged rows are empty.
    ///
    /// # Errors
    /// As for [`OpenFile::jagged`], and those of `take`.
    pub fn jagged<T>(
        &self,
        of: FieldColumn<'_>,
        marks_elements: bool,
        buffers: &mut Buffers,
        mut take: impl FnMut(Box<dyn JaggedDecoder + '_>) -> Result<T>,
    ) -> Result<T> {
        let FieldColumn { column, nulls, .. } = of;
        let mut tried =
            || take(self.file()?.jagged(self.row_group, column, nulls, marks_elements, buffers)?);
        let Some(masking) = self.masking else { return tried() };
        match caught(tried) {
            Err(error) if error.is_damage() => {
                let survey = self.survey(masking, of, true, buffers, error)?;
                let mut memory: Vec<Buffers> = survey.good.iter().map(|_| buffers.others()).collect();
                let mut good = Vec::with_capacity(memory.len());
                for (part, buffers) in survey.good.iter().zip(&mut memory) {
                    let file = part.file(self.file()?, self.row_group, column)?;
                    let decoder = file.jagged(self.row_group, column, nulls, marks_elements, buffers)?;
                    good.push((part.rows.clone(), decoder));
                }
                let mended: Mended<Box<dyn JaggedDecoder + '_>> = Mended::new(good, 0, of.mark());
                caught(|| take(Box::new(mended)))
            }
            taken => taken,
        }
    }

    /// Which rows of a column can be decoded, where something could not for this reason.
    fn survey(
        &self,
        masking: &Masking<'_>,
        of: FieldColumn<'_>,
        is_jagged: bool,
        buffers: &mut Buffers,
        error: Error,
    ) -> Result<Arc<Survey>> {
        let key = (masking.group, of.key);
        let known = locked(&masking.surveys.0).get(&key).cloned();
        let survey = match (known, self.file) {
            (Some(known), Ok(_)) => known,
            (_, Err(_)) => Arc::new(Survey::nothing(masking.rows, error)),
            (None, Ok(file)) => {
                let trial = Trial { row_group: self.row_group, column: of.column, is_jagged };
                let found = Arc::new(Survey::of(trial, file, buffers, masking.stop)?);
                let mut surveys = locked(&masking.surveys.0);
                if surveys.len() == MOST_SURVEYS {
                    surveys.clear();
                }
                surveys.insert(key, Arc::clone(&found));
                found
            }
        };
        let named = survey.bad.iter().map(|bad| {
            let cause = bad.cause.clone().in_column(&of.column.name);
            BadRows { rows: bad.rows.clone(), cause }
        });
        masking.found.borrow_mut().extend(named);
        Ok(survey)
    }
}

impl FieldColumn<'_> {
    /// How damaged rows are marked where nulls are: their value is none.
    fn mark(&self) -> u8 {
        u8::from(!self.is_masked)
    }
}
