//! Values of a dictionary that came in several messages, as one array.

use std::sync::Arc;

use crate::arrow::array::{Array, Lent, bit, contradicts, offset_at};
use crate::arrow::field::{ArrowField, ArrowForm};
use crate::error::{Error, Result};
use crate::memory::vectors::{append, room_for};

/// Arrays behind one another. None of them has values before its own.
///
/// # Errors
/// `Data` if they contradict themselves, or have a type of which dictionaries can't grow.
pub fn joined(field: &ArrowField, parts: &[Array]) -> Result<Array> {
    let length = parts.iter().map(|part| part.length).sum();
    let has_nulls = parts.iter().any(|part| part.validity.is_some());
    let validity = has_nulls.then(|| bits(parts, Array::is_valid)).transpose()?;
    let mut buffers: Vec<Arc<dyn Lent>> = Vec::new();
    match field.form {
        ArrowForm::Bool => {
            let found = bits(parts, |part, place| {
                bit(part.buffer(0)?, place).ok_or_else(|| contradicts("its bits end before its values"))
            });
            buffers.push(Arc::new(found?));
        }
        ArrowForm::Fixed(width, _) => {
            let mut all = Vec::new();
            for part in parts {
                let own =
                    part.length.checked_mul(width).and_then(|length| part.buffer(0).ok()?.get(..length));
                append(
                    &mut all,
                    own.ok_or_else(|| contradicts("its values end too early"))?.iter().copied(),
                )?;
            }
            buffers.push(Arc::new(all));
        }
        ArrowForm::Bytes { is_wide } => {
            let (mut places, mut all) = (Vec::new(), Vec::new());
            add_offset(0, is_wide, &mut places)?;
            for part in parts {
                for place in 0..part.length {
                    append(&mut all, part.text(field.form, place)?.iter().copied())?;
                    add_offset(all.len(), is_wide, &mut places)?;
                }
            }
            buffers.extend([Arc::new(places) as Arc<dyn Lent>, Arc::new(all)]);
        }
        ArrowForm::Views => {
            let mut views = Vec::new();
            let mut more = Vec::new();
            for part in parts {
                let own = part.length.checked_mul(16).and_then(|length| part.buffer(0).ok()?.get(..length));
                let (each, _) = own.ok_or_else(|| contradicts("its views end too early"))?.as_chunks::<16>();
                room_for(&mut views, each.len() * 16)?;
                for view in each {
                    let mut view = *view;
                    if offset_at(&view, 0, false).is_none_or(|length| length > 12) {
                        let number = offset_at(&view, 2, false)
                            .and_then(|number| i32::try_from(number.checked_add(more.len())?).ok());
                        let number = number.ok_or_else(|| contradicts("a view is outside of its bytes"))?;
                        view[8..12].copy_from_slice(&number.to_le_bytes());
                    }
                    views.extend_from_slice(&view);
                }
                more.extend(part.buffers.iter().skip(1).cloned());
            }
            buffers.push(Arc::new(views));
            buffers.extend(more);
        }
        _ => return Err(Error::refused("a dictionary of nested values grows: write it as one")),
    }
    Ok(Array {
        length,
        offset: 0,
        validity: validity.map(|bits| Arc::new(bits) as Arc<dyn Lent>),
        buffers,
        children: Vec::new(),
        dictionary: None,
    })
}

fn bits(parts: &[Array], of: impl Fn(&Array, usize) -> Result<bool>) -> Result<Vec<u8>> {
    let (mut found, mut count) = (Vec::new(), 0_usize);
    for part in parts {
        for place in 0..part.length {
            if count.is_multiple_of(8) {
                append(&mut found, [0])?;
            }
            if let Some(last) = found.last_mut() {
                *last |= u8::from(of(part, place)?) << (count % 8);
            }
            count += 1;
        }
    }
    Ok(found)
}

fn add_offset(offset: usize, is_wide: bool, to: &mut Vec<u8>) -> Result<()> {
    if is_wide {
        return append(to, (offset as u64).to_le_bytes());
    }
    let narrow =
        i32::try_from(offset).map_err(|_| Error::refused("a dictionary has more than 2 GiB of text"))?;
    append(to, narrow.to_le_bytes())
}
