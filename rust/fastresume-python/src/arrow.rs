//! What others lend by Arrow's C interfaces, taken into the core without a copy.
//!
//! Source: <https://arrow.apache.org/docs/format/CDataInterface.html>
#![allow(unsafe_code, reason = "the C interfaces hand out addresses")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use fastresume::{Array, ArrowField, ArrowForm, Error, Lent, MAX_ARROW_DEPTH, Result, RowBatch};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const NULLABLE: i64 = 2;

#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut CSchema,
    dictionary: *mut CSchema,
    release: Option<unsafe extern "C" fn(*mut CSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut CArray,
    dictionary: *mut CArray,
    release: Option<unsafe extern "C" fn(*mut CArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct CStream {
    get_schema: Option<unsafe extern "C" fn(*mut CStream, *mut CSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut CStream, *mut CArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut CStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut CStream)>,
    private_data: *mut c_void,
}

/// A structure whose producer is called when it is not needed any more.
struct Owned<T: Releases>(T);

trait Releases: Sized {
    fn empty() -> Self;
    fn release(&mut self);
}

macro_rules! releases {
    ($kind:ty, $($fields:ident: $values:expr),*) => {
        impl Releases for $kind {
            fn empty() -> Self {
                Self { $($fields: $values,)* release: None, private_data: std::ptr::null_mut() }
            }

            fn release(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the structure is the producer's, as it was filled in, and was not released.
                    unsafe { release(std::ptr::from_mut(self)) };
                    self.release = None;
                }
            }
        }
    };
}

releases!(CSchema, format: std::ptr::null(), name: std::ptr::null(), metadata: std::ptr::null(), flags: 0,
          n_children: 0, children: std::ptr::null_mut(), dictionary: std::ptr::null_mut());
releases!(CArray, length: 0, null_count: 0, offset: 0, n_buffers: 0, n_children: 0, buffers: std::ptr::null_mut(),
          children: std::ptr::null_mut(), dictionary: std::ptr::null_mut());
releases!(CStream, get_schema: None, get_next: None, get_last_error: None);

impl<T: Releases> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

// SAFETY: the C data interface lets an array be released in any thread; nobody writes to it meanwhile.
unsafe impl Send for Owned<CArray> {}
// SAFETY: as above: it is only read.
unsafe impl Sync for Owned<CArray> {}

/// Bytes of an array, which lives as long as they do.
struct Piece {
    _owner: Arc<Owned<CArray>>,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes are the producer's, who does not change what was lent.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Lent for Piece {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the producer lends so many bytes from there, as long as the owner lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

fn contradicts(what: &str) -> Error {
    Error::data(format!("an Arrow array contradicts itself: {what}"))
}

fn count(number: i64) -> Result<usize> {
    usize::try_from(number).map_err(|_| contradicts("a number is negative"))
}

fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: strings of the interface end in a zero.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The field that a schema describes.
fn field(schema: &CSchema, depth: usize) -> Result<ArrowField> {
    let name = text(schema.name);
    if depth > MAX_ARROW_DEPTH {
        return Err(Error::refused(format!("a type is nested more than {MAX_ARROW_DEPTH} deep")));
    }
    let form = ArrowForm::parse(&text(schema.format)).map_err(|error| error.in_column(&name))?;
    let mut children = Vec::new();
    for number in 0..count(schema.n_children)? {
        // SAFETY: there are so many pointers to children, none of them null.
        let child = unsafe { (*schema.children.add(number)).as_ref() };
        children.push(field(child.ok_or_else(|| contradicts("a child is missing"))?, depth + 1)?);
    }
    // SAFETY: it is null, or the type of the dictionary's values.
    let values = unsafe { schema.dictionary.as_ref() };
    let dictionary = values.map(|values| field(values, depth + 1).map(Box::new)).transpose()?;
    Ok(ArrowField { name, form, is_nullable: schema.flags & NULLABLE != 0, children, dictionary })
}

/// The parts of an array, as its field says that there are.
fn array(field: &ArrowField, of: &CArray, owner: &Arc<Owned<CArray>>) -> Result<Array> {
    let (length, offset) = (count(of.length)?, count(of.offset)?);
    let all = length.checked_add(offset).ok_or_else(|| contradicts("it is too long"))?;
    let given = count(of.n_buffers)?;
    let address = |number: usize| {
        let there = number < given && !of.buffers.is_null();
        // SAFETY: there are so many addresses, of which some may be null.
        let address = if there { unsafe { *of.buffers.add(number) } } else { std::ptr::null() };
        NonNull::new(address.cast_mut().cast::<u8>())
    };
    let piece = |number: usize, length: usize| -> Arc<dyn Lent> {
        match address(number) {
            Some(start) if length > 0 => Arc::new(Piece { _owner: Arc::clone(owner), start, length }),
            _ => Arc::new(Vec::new()),
        }
    };
    let bytes =
        |width: usize, values: usize| width.checked_mul(values).ok_or_else(|| contradicts("it is too long"));
    let has_validity = !matches!(field.form, ArrowForm::Null | ArrowForm::Runs);
    let validity =
        (has_validity && of.null_count != 0 && address(0).is_some()).then(|| piece(0, all.div_ceil(8)));
    let offsets = |is_wide: bool| bytes(if is_wide { 8 } else { 4 }, if all == 0 { 0 } else { all + 1 });
    let buffers = match field.form {
        ArrowForm::Null | ArrowForm::Runs | ArrowForm::Struct | ArrowForm::FixedList(_) => Vec::new(),
        ArrowForm::Bool => vec![piece(1, all.div_ceil(8))],
        ArrowForm::Fixed(width, _) => vec![piece(1, bytes(width, all)?)],
        ArrowForm::List { is_wide } => vec![piece(1, offsets(is_wide)?)],
        ArrowForm::Map => vec![piece(1, offsets(false)?)],
        ArrowForm::ListViews { is_wide } => {
            let length = bytes(if is_wide { 8 } else { 4 }, all)?;
            vec![piece(1, length), piece(2, length)]
        }
        ArrowForm::Bytes { is_wide } => {
            let places = piece(1, offsets(is_wide)?);
            let tail = places.bytes();
            let end = match (is_wide, tail.last_chunk::<8>(), tail.last_chunk::<4>()) {
                _ if tail.is_empty() => 0,
                (true, Some(end), _) => i64::from_le_bytes(*end),
                (false, _, Some(end)) => i64::from(i32::from_le_bytes(*end)),
                _ => return Err(contradicts("its offsets end too early")),
            };
            let end = count(end)?;
            vec![places, piece(2, end)]
        }
        ArrowForm::Views => {
            let others = given.saturating_sub(3);
            let lengths = piece(given.saturating_sub(1), bytes(8, others)?);
            let mut found = vec![piece(1, bytes(16, all)?)];
            for number in 0..others {
                let length = lengths.bytes().get(number * 8..).and_then(|rest| rest.first_chunk::<8>());
                let length = length.ok_or_else(|| contradicts("a buffer has no length"))?;
                found.push(piece(2 + number, count(i64::from_le_bytes(*length))?));
            }
            found
        }
    };
    if count(of.n_children)? != field.children.len() {
        return Err(contradicts("it has other children than its type"));
    }
    let mut children = Vec::with_capacity(field.children.len());
    for (number, field) in field.children.iter().enumerate() {
        // SAFETY: there are so many pointers to children, none of them null.
        let child = unsafe { (*of.children.add(number)).as_ref() };
        children.push(array(field, child.ok_or_else(|| contradicts("a child is missing"))?, owner)?);
    }
    let dictionary = match &field.dictionary {
        None => None,
        Some(values) => {
            // SAFETY: it is null, or the dictionary.
            let of =
                unsafe { of.dictionary.as_ref() }.ok_or_else(|| contradicts("the dictionary is missing"))?;
            Some(Arc::new(array(values, of, owner)?))
        }
    };
    Ok(Array { length, offset, validity, buffers, children, dictionary })
}

/// The columns of a batch, by the numbers of their fields.
fn batch(fields: &[ArrowField], numbers: &[usize], given: CArray) -> Result<RowBatch> {
    let owner = Arc::new(Owned(given));
    let of = &owner.0;
    let (rows, offset) = (count(of.length)?, count(of.offset)?);
    let mut columns = vec![None; fields.len()];
    if count(of.n_children)? != numbers.len() {
        return Err(contradicts("it has other columns than were asked for"));
    }
    for (place, &number) in numbers.iter().enumerate() {
        // SAFETY: there are so many pointers to children, none of them null.
        let child = unsafe { (*of.children.add(place)).as_ref() };
        let child = child.ok_or_else(|| contradicts("a child is missing"))?;
        let whole = array(&fields[number], child, &owner)?;
        if whole.length < offset.saturating_add(rows) {
            return Err(contradicts("a column has fewer rows than its batch"));
        }
        columns[number] = Some(whole.slice(offset, rows));
    }
    Ok(RowBatch { rows, columns })
}

/// What an object lends by one of its methods, in a capsule of a name.
fn lent<T: Releases>(given: &Bound<'_, PyAny>, method: &str, name: &CStr) -> PyResult<(Owned<T>, Py<PyAny>)> {
    let capsule = given.call_method0(method)?;
    let capsule = capsule.cast_into::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err(format!("{method}() must return a capsule, found {}", given.get_type()))
    })?;
    let pointer = capsule.pointer_checked(Some(name))?.cast::<T>();
    // SAFETY: a capsule of this name holds such a structure; whoever takes it leaves one that is released.
    let taken = unsafe { std::ptr::replace(pointer.as_ptr(), T::empty()) };
    Ok((Owned(taken), capsule.into_any().unbind()))
}

/// The fields of a schema: anything with `__arrow_c_schema__`.
pub fn fields_of(given: &Bound<'_, PyAny>) -> PyResult<Result<Vec<ArrowField>>> {
    let (schema, _capsule) = lent::<CSchema>(given, "__arrow_c_schema__", c"arrow_schema")?;
    Ok(field(&schema.0, 0).map(|whole| whole.children))
}

/// The batches of a stream of some columns, by their numbers: anything with `__arrow_c_stream__`.
pub fn batches_of(
    given: &Bound<'_, PyAny>,
    fields: &[ArrowField],
    numbers: &[usize],
) -> PyResult<Result<Vec<RowBatch>>> {
    let (mut stream, _capsule) = lent::<CStream>(given, "__arrow_c_stream__", c"arrow_array_stream")?;
    Ok(streamed(&mut stream.0, fields, numbers))
}

fn streamed(stream: &mut CStream, fields: &[ArrowField], numbers: &[usize]) -> Result<Vec<RowBatch>> {
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(contradicts("a stream was read before"));
    };
    let mut schema = Owned(CSchema::empty());
    // SAFETY: the stream is the producer's and was not released; the schema is filled in.
    let code = unsafe { get_schema(stream, &raw mut schema.0) };
    if code != 0 {
        return Err(failed(stream, code));
    }
    let found = field(&schema.0, 0)?.children;
    let wanted: Vec<&ArrowField> = numbers.iter().filter_map(|&number| fields.get(number)).collect();
    if let Some((found, wanted)) = found.iter().zip(&wanted).find(|(found, wanted)| !is_same(found, wanted)) {
        return Err(Error::data(format!(
            "column '{}' has another type than its schema states for '{}'",
            found.name, wanted.name
        )));
    }
    let mut batches = Vec::new();
    loop {
        let mut next = Owned(CArray::empty());
        // SAFETY: as above; the array is filled in.
        let code = unsafe { get_next(stream, &raw mut next.0) };
        if code != 0 {
            return Err(failed(stream, code));
        }
        if next.0.release.is_none() {
            return Ok(batches);
        }
        let taken = std::mem::replace(&mut next.0, CArray::empty());
        batches.push(batch(fields, numbers, taken)?);
    }
}

/// Whether arrays of one field can be read as those of the other.
fn is_same(one: &ArrowField, other: &ArrowField) -> bool {
    one.form == other.form
        && one.children.len() == other.children.len()
        && one.children.iter().zip(&other.children).all(|(one, other)| is_same(one, other))
        && match (&one.dictionary, &other.dictionary) {
            (Some(one), Some(other)) => is_same(one, other),
            (None, None) => true,
            _ => false,
        }
}

fn failed(stream: &mut CStream, code: c_int) -> Error {
    // SAFETY: the stream was not released.
    let message = stream.get_last_error.map(|message| unsafe { message(stream) });
    let message = message.map(text).filter(|message| !message.is_empty());
    Error::Source(format!(
        "a stream of Arrow arrays failed: {}",
        message.unwrap_or_else(|| format!("error {code}"))
    ))
}
