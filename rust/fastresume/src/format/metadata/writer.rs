//! Which program wrote a file: some releases state what is not so, and were never able to take it back.
//!
//! Sources: `VersionParser` and `CorruptStatistics` of parquet-java, `ApplicationVersion` of Arrow C++.

use parquet::basic::Type as Physical;

/// A release, as far as its name and its version are stated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writer {
    program: Program,
    version: [u32; 3],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Program {
    /// Of which nothing is known.
    #[default]
    Other,
    /// Arrow C++ since it has the version of Arrow: pyarrow, R, Ruby, C#.
    Arrow,
    /// Parquet C++, and Arrow C++ with its version.
    Cpp,
    Java,
    Rust,
    Arrow2,
    Fastparquet,
}

impl Writer {
    /// The release that a footer names, as in `parquet-mr version 1.12.3 (build f8dced1)`.
    pub fn of(created_by: Option<&str>) -> Self {
        let text = created_by.unwrap_or_default();
        let (name, rest) = text.split_once(" version ").unwrap_or((text, ""));
        let program = match name.trim() {
            "parquet-cpp-arrow" => Program::Arrow,
            "parquet-cpp" => Program::Cpp,
            "parquet-mr" => Program::Java,
            "parquet-rs" => Program::Rust,
            "fastparquet-python" => Program::Fastparquet,
            name if name.starts_with("Arrow2") => Program::Arrow2,
            _ => Program::Other,
        };
        let mut version = [0; 3];
        let digits = rest.trim_start().split(|end: char| !end.is_ascii_digit() && end != '.').next();
        for (place, part) in version.iter_mut().zip(digits.unwrap_or_default().split('.')) {
            *place = part.parse().unwrap_or(0);
        }
        Self { program, version }
    }

    /// Whether the headers of list pages of version 2 state rows. Arrow C++ stated values before 12
    /// (apache/arrow#34086), and began pages within rows.
    pub fn counts_list_rows(self) -> bool {
        !(self.program == Program::Cpp || self.program == Program::Arrow && self.version < [12, 0, 0])
    }

    /// Whether the offset index of a list column is known to count rows, and its pages to begin with one. Others count
    /// elements (`ClickHouse` did), or begin pages within rows (arrow-go did).
    pub fn indexes_list_rows(self) -> bool {
        let first = match self.program {
            Program::Arrow => [13, 0, 0],
            Program::Java => [1, 11, 0],
            Program::Rust => [40, 0, 0],
            Program::Other | Program::Cpp | Program::Arrow2 | Program::Fastparquet => return false,
        };
        self.version >= first
    }

    /// Whether a null count of 0 is one. Arrow C++ did not count nulls of what it was given as a dictionary
    /// (ARROW-12513, PARQUET-2067).
    pub fn counts_nulls(self) -> bool {
        !(self.program == Program::Cpp || self.program == Program::Arrow && self.version < [7, 0, 0])
    }

    /// Whether the bounds of values, of this type and compared as signed numbers or not, are theirs.
    ///
    /// Parquet C++ before 1.3 and parquet-mr before 1.10 compared all values as signed ones (PARQUET-686, PARQUET-251);
    /// Arrow2, which polars wrote with, forgot all pages but one (pola-rs/polars#7842).
    pub fn knows_bounds(self, physical: Physical, is_signed: bool) -> bool {
        let is_old = match self.program {
            Program::Cpp => self.version < [1, 3, 0],
            Program::Java => self.version < [1, 10, 0],
            Program::Arrow2 => return false,
            Program::Arrow | Program::Rust | Program::Fastparquet | Program::Other => false,
        };
        let is_number =
            !matches!(physical, Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY | Physical::INT96);
        !is_old || is_number && is_signed
    }

    /// Whether pages of version 1 may end in eight zeros that are none of their values: fastparquet puts them there.
    pub fn pads_pages(self) -> bool {
        self.program == Program::Fastparquet
    }

    /// Whether the sizes of column chunks count the header of their dictionary: parquet-mr left it out before 1.2.9 (PARQUET-816).
    pub fn counts_dictionary_headers(self) -> bool {
        !(self.program == Program::Java && self.version < [1, 2, 9])
    }

    /// Whether pages of version 2 that say that they are not compressed are not: Arrow C++ compressed them all, as long as it
    /// had the version of Parquet C++ (ARROW-10353).
    pub fn marks_uncompressed_pages(self) -> bool {
        self.program != Program::Cpp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_by_name_and_version() {
        let writer = |text: &str| Writer::of(Some(text));
        let arrow = |text: &str| writer(&format!("parquet-cpp-arrow version {text}")).version;
        assert_eq!(arrow("4.0.1"), [4, 0, 1]);
        assert_eq!(arrow("12.0.0-SNAPSHOT"), [12, 0, 0]);
        assert_eq!(arrow("9.0"), [9, 0, 0]);
        assert_eq!(arrow("99999999999.1"), [0, 1, 0]);
        assert_eq!(arrow(""), [0; 3]);
        let java = writer("parquet-mr version 1.8.0-cdh5.3.0 (build 0fda28af84)");
        assert_eq!(java, Writer { program: Program::Java, version: [1, 8, 0] });
        assert_eq!(writer("parquet-mr").version, [0; 3]);
        for other in [None, Some(""), Some("Polars"), Some("DuckDB version v1.4.0 (build 62d2fe8)")] {
            assert_eq!(Writer::of(other), Writer::default());
        }
    }

    #[test]
    fn what_a_release_is_known_to_get_wrong_is_not_taken_from_it() {
        let arrow = |version: &str| Writer::of(Some(&format!("parquet-cpp-arrow version {version}")));
        let rows = ["11.0.0", "12.0.0"].map(|version| arrow(version).counts_list_rows());
        assert_eq!(rows, [false, true]);
        let nulls = ["4.0.1", "6.0.1", "7.0.0"].map(|version| arrow(version).counts_nulls());
        assert_eq!(nulls, [false, false, true]);
        let old = Writer::of(Some("parquet-cpp version 1.5.1-SNAPSHOT"));
        assert!(!old.counts_list_rows() && !old.counts_nulls() && !old.marks_uncompressed_pages());
        let java = |version: &str| Writer::of(Some(&format!("parquet-mr version {version} (build 1)")));
        for (physical, is_signed, expected) in [
            (Physical::BYTE_ARRAY, false, false),
            (Physical::INT64, false, false),
            (Physical::INT64, true, true),
        ] {
            assert_eq!(java("1.9.0").knows_bounds(physical, is_signed), expected);
            assert!(java("1.10.0").knows_bounds(physical, is_signed));
        }
        assert!(java("1.2.9").counts_dictionary_headers() && !java("1.2.8").counts_dictionary_headers());
        let indexes = |text: &str| Writer::of(Some(text)).indexes_list_rows();
        assert!(indexes("parquet-mr version 1.13.1") && indexes("parquet-rs version 58.0.0"));
        assert!(!indexes("parquet-mr version 1.10.1") && !indexes("ClickHouse v25") && !indexes("by hand"));
    }
}
