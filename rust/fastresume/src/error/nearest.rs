//! The name that somebody meant who wrote another one.

/// A longer name is not compared letter by letter.
const LONGEST: usize = 64;

/// The name that is most like a text, if one is much like it.
#[must_use]
pub fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let text = plain(text);
    if text.len() > LONGEST {
        return None;
    }
    let most = (text.len() / 3).min(2);
    let near = names.iter().filter(|name| name.len().abs_diff(text.len()) <= 2 + name.len() / 3);
    let near = near.map(|name| (edits(&text, &plain(name)), *name)).filter(|&(edits, _)| edits <= most);
    near.min().map(|(_, name)| name)
}

/// The letters of a name, in which people mistake neither case nor what stands between words.
fn plain(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).take(LONGEST + 1).collect()
}

/// How many letters were left out, added, changed, or changed their places with the next one.
fn edits(one: &[char], other: &[char]) -> usize {
    let mut rows = vec![(0..=other.len()).collect::<Vec<_>>()];
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, also) in other.iter().enumerate() {
            let above = &rows[row];
            let changed = above[column] + usize::from(letter != also);
            let mut least = changed.min(above[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && one[row - 1] == *also && *letter == other[column - 1] {
                least = least.min(rows[row - 1][column - 1] + 1);
            }
            next.push(least);
        }
        rows.push(next);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_another_word_is_not() {
        let names = ["batch_size", "fill_null", "col", "prefetch_bytes"];
        for (text, near) in [
            ("BATCH-SIZE", Some("batch_size")),
            ("batchsizes", Some("batch_size")),
            ("fill_nul", Some("fill_null")),
            ("cols", Some("col")),
            ("prefetch_byets", Some("prefetch_bytes")),
            ("prefetch", None),
            ("row", None),
            ("c['k']", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, &names), near, "{text}");
        }
    }
}
