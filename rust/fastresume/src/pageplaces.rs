//! Where data pages of a file lie, as far as their headers were read.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::chunk::PagePlace;
use crate::error::locked;

/// More pages of a file are not noted: what was noted so far is forgotten then.
const MOST_PAGES: usize = 1 << 14;

/// Data pages by column chunk (the offset where it begins) and first row, so that those who read another part of a row group
/// need not read the headers before it again.
#[derive(Debug, Default)]
pub struct PagePlaces(Mutex<BTreeMap<(u64, u64), u64>>);

impl PagePlaces {
    /// Notes pages of a column chunk.
    pub fn note(&self, chunk: u64, pages: &[PagePlace]) {
        let mut places = locked(&self.0);
        if places.len() + pages.len() > MOST_PAGES {
            places.clear();
        }
        places.extend(pages.iter().take(MOST_PAGES).map(|page| ((chunk, page.first_row), page.offset)));
    }

    /// Of the pages of a column chunk that were noted, the last one that begins at a row or before.
    pub fn last(&self, chunk: u64, row: u64) -> Option<PagePlace> {
        let places = locked(&self.0);
        let (&(_, first_row), &offset) = places.range((chunk, 0)..=(chunk, row)).next_back()?;
        Some(PagePlace { offset, first_row })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_up_to_a_row_is_told_of_each_chunk() {
        let places = PagePlaces::default();
        let page = |first_row| PagePlace { offset: 1000 + first_row, first_row };
        places.note(4, &[page(0), page(10), page(30)]);
        places.note(9, &[page(20)]);
        let row_of = |chunk, row| places.last(chunk, row).map(|page| (page.offset, page.first_row));
        assert_eq!(row_of(4, 9), Some((1000, 0)));
        assert_eq!(row_of(4, 29), Some((1010, 10)));
        assert_eq!(row_of(4, u64::MAX), Some((1030, 30)));
        assert_eq!(row_of(9, 19), None);
        assert_eq!(row_of(5, 100), None);
        let many: Vec<_> = (0..MOST_PAGES as u64).map(page).collect();
        places.note(5, &many);
        assert_eq!((row_of(4, 9), row_of(5, 7)), (None, Some((1007, 7))));
    }
}
