//! What a file that is not Parquet looks like, for people who named another one.

use std::path::Path;
use std::str::from_utf8;

/// So many bytes of a file's start are looked at.
pub const LOOKED_AT_BYTES: u64 = 512;

/// How pages begin, in small or capital letters.
const MARKUP: [(&[u8], &str); 3] =
    [(b"<!doctype", "a page of HTML"), (b"<html", "a page of HTML"), (b"<?xml", "XML")];

const PACKED: &str = "unpack it first";
const TABLE: &str = "write it as Parquet first, as with pyarrow.parquet.write_table";
const ARROW: &str = "write fr.ArrowDataset(paths) instead of ParquetDataset";
const PAGE: &str =
    "a login or an error came instead of the file: open its address in a browser, or download it again";

const TENSORS: &str =
    "load it by torch.load, and write its tensors as Parquet, as with pyarrow.parquet.write_table";
const ARRAYS: &str =
    "load it by numpy.load, and write its arrays as Parquet, as with pyarrow.parquet.write_table";
const NUMBERS: &str =
    "read it by numpy.memmap, and write its numbers as Parquet, as with pyarrow.parquet.write_table";

/// How a zip file begins.
const ZIP: &[u8] = b"PK\x03\x04";

/// Names in zip files that tell who wrote them.
const IN_ZIPS: [(&[u8], &str, &str); 2] =
    [(b"/data.pkl", "a file of torch.save", TENSORS), (b".npy", "a file of numpy.savez", ARRAYS)];

/// How kinds of files begin, what they are, and what to do.
const BEGINNINGS: [(&[u8], &str, &str); 18] = [
    (b"\x1f\x8b", "a gzip file", PACKED),
    (b"\x28\xb5\x2f\xfd", "a zstd file", PACKED),
    (b"BZh", "a bzip2 file", PACKED),
    (b"\xfd7zXZ\0", "an xz file", PACKED),
    (b"\x04\x22\x4d\x18", "an LZ4 file", PACKED),
    (ZIP, "a zip file", PACKED),
    (b"ARROW1", "an Arrow IPC file (Feather)", ARROW),
    (b"\xff\xff\xff\xff", "a stream of Arrow IPC", ARROW),
    (b"FEA1", "a Feather file of version 1", TABLE),
    (b"ORC", "an ORC file", TABLE),
    (b"Obj\x01", "an Avro file", TABLE),
    (b"\x89HDF", "an HDF5 file", TABLE),
    (b"SQLite format 3", "an SQLite database", TABLE),
    (b"\x93NUMPY", "an array of numpy", TABLE),
    (b"\x80\x04\x95", "a pickle", TABLE),
    (b"\x80\x05\x95", "a pickle", TABLE),
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file with `git lfs pull`"),
    (b"fastresume manifest cache ", "a manifest of fr.Cache", "keep it in another folder than the data"),
];

/// How names end of files that are no Parquet, what they are, and what to do.
const ENDINGS: [(&[&str], &str, &str); 7] = [
    (&["bin"], "numbers without a type", NUMBERS),
    (&["npz"], "a file of numpy.savez", ARRAYS),
    (&["ckpt", "pt", "pth"], "a file of torch.save", TENSORS),
    (&["csv", "tsv", "json", "jsonl", "ndjson", "txt"], "a text of values", TABLE),
    (&["avro", "h5", "hdf5", "npy", "orc", "pickle", "pkl", "xlsx"], "a table of another kind", TABLE),
    (&["arrow", "arrows", "feather", "ipc"], "an Arrow IPC file (Feather)", ARROW),
    (&["bz2", "gz", "tar", "tgz", "xz", "zip", "zst"], "a packed file", PACKED),
];

/// What a file looks like by its name alone, and what to do.
#[must_use]
pub fn advice_for_names(path: &Path) -> Option<(&'static str, &'static str)> {
    let end = path.extension()?.to_str()?.to_lowercase();
    let (_, what, advice) = ENDINGS.into_iter().find(|(ends, ..)| ends.contains(&end.as_str()))?;
    Some((what, advice))
}

/// What a file that begins so looks like, and what to do, to stand behind a message; empty if nothing is known.
#[must_use]
pub fn hint(start: &[u8]) -> String {
    looks_like(start).map(|(what, advice)| format!("; it looks like {what}: {advice}")).unwrap_or_default()
}

/// What a file that begins so looks like, and what to do.
#[must_use]
pub fn looks_like(start: &[u8]) -> Option<(&'static str, &'static str)> {
    if start.is_empty() {
        return Some(("an empty file", "its writer may not have begun, or failed"));
    }
    if start.starts_with(b"PAR1") {
        return Some(("Parquet whose end is missing", "its writer, or a copy, has not ended or failed"));
    }
    if start.iter().all(|&byte| byte == 0) {
        return Some(("zeros", "room was made for it, but its bytes were not written"));
    }
    let has = |name: &[u8]| start.windows(name.len()).any(|own| own == name);
    if let Some((_, what, advice)) =
        IN_ZIPS.into_iter().find(|(name, ..)| start.starts_with(ZIP) && has(name))
    {
        return Some((what, advice));
    }
    for (beginning, what, advice) in BEGINNINGS {
        if start.starts_with(beginning) {
            return Some((what, advice));
        }
    }
    let markup = start.trim_ascii_start();
    let begins = |with: &[u8]| markup.get(..with.len()).is_some_and(|own| own.eq_ignore_ascii_case(with));
    if let Some((_, what)) = MARKUP.into_iter().find(|(beginning, _)| begins(beginning)) {
        return Some((what, PAGE));
    }
    if start.get(257..262).is_some_and(|magic| magic == b"ustar") {
        return Some(("a tar archive", PACKED));
    }
    let text = text_of(start)?.trim_start();
    if text.starts_with(['{', '[']) {
        return Some(("JSON", TABLE));
    }
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let is_split = |by| line.contains(by) && rest.lines().next().is_none_or(|next| next.contains(by));
    if [',', '\t', ';', '|'].into_iter().any(is_split) {
        return Some(("CSV text", TABLE));
    }
    Some(("text", TABLE))
}

/// The bytes as text, if they are some: the last character may be cut off.
fn text_of(start: &[u8]) -> Option<&str> {
    let text = match from_utf8(start) {
        Ok(text) => text,
        Err(cause) if cause.error_len().is_none() => from_utf8(&start[..cause.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_text = |char: char| !char.is_control() || char.is_ascii_whitespace();
    (!text.is_empty() && text.chars().all(is_text)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_and_known_by_no_beginning_is_not_guessed() {
        for start in [&b"\x01\x02"[..], b"abc\0", b"\xff", b"\xc3"] {
            assert_eq!(hint(start), "");
        }
    }

    #[test]
    fn text_that_is_cut_within_a_character_is_text() {
        assert_eq!(looks_like(b"a,b\n1,\xc3").map(|(what, _)| what), Some("CSV text"));
        assert_eq!(looks_like(b"\xef\xbb\xbf {\"a\": 1}").map(|(what, _)| what), Some("JSON"));
        assert_eq!(looks_like(b"one, two\nthree").map(|(what, _)| what), Some("text"));
    }
}
