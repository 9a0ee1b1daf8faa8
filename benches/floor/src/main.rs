//! What one thread needs for the same files: to read and decompress them, to decode them by the `parquet`
//! crate, and to have ready batches.
//!
//! `fastresume-floor CONTENDER FILE...` reads the files by one of these ways for a second, of which the first half does
//! not count, and prints the rows, the bytes of their values, and such bytes per CPU second; what is opened counts.
//! `floor.py` has them take turns, each time in a process of its own, as memory that one of them had is of no use to
//! another, and makes a table.

mod arrow;
mod own;
mod pages;

use std::error::Error;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use rustix::time::{ClockId, clock_gettime};

use crate::arrow::BatchRows;
use crate::own::Way;

/// A benchmark ends with the first error, whatever it is.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Passes follow each other for so long, at least, until memory and caches have settled, and as long again.
const TURN: Duration = Duration::from_millis(500);

/// A way to read all files; gives the rows.
type Pass<'a> = Box<dyn FnMut() -> Outcome<u64> + 'a>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("the contender is missing")?;
    let paths: Vec<String> = arguments.collect();
    let (mut rows, mut bytes) = (0, 0);
    for path in &paths {
        let (of_rows, of_bytes) = arrow::value_bytes(path)?;
        rows += of_rows;
        bytes += of_bytes;
    }
    let mut pass = contender(&name, &paths, bytes / rows.max(1))?;
    let mut speed = 0.0;
    for _ in 0..2 {
        let began = cpu_seconds();
        let mut passes = 0;
        while cpu_seconds() - began < TURN.as_secs_f64() {
            let delivered = pass()?;
            if delivered != rows {
                return Err(format!("{name}: it read {delivered} rows, expected {rows}").into());
            }
            passes += 1;
        }
        #[expect(clippy::cast_precision_loss, reason = "no file has 2^52 bytes")]
        let decoded = (passes * bytes) as f64;
        speed = decoded / (cpu_seconds() - began);
    }
    println!("{rows} {bytes} {speed:.0}");
    Ok(())
}

fn contender<'a>(name: &str, paths: &'a [String], row_bytes: u64) -> Outcome<Pass<'a>> {
    let arrow = |batch_rows| -> Pass<'a> {
        Box::new(move || paths.iter().map(|path| arrow::read_all(path, batch_rows, row_bytes)).sum())
    };
    let own = |is_stacked, is_shuffled| -> Outcome<Pass<'a>> {
        let way = Way { is_stacked, is_shuffled, with_nulls: columns_with_nulls(paths)? };
        Ok(Box::new(move || own::read_all(paths, &way)))
    };
    match name {
        "floor" => {
            let mut buffers = pages::Buffers::default();
            Ok(Box::new(move || paths.iter().map(|path| Ok(pages::expand_all(path, &mut buffers)?.0)).sum()))
        }
        "arrow-group" => Ok(arrow(BatchRows::Group)),
        "arrow-small" => Ok(arrow(BatchRows::Small)),
        "own" => own(false, false),
        "own-stacked" => own(true, false),
        "own-shuffled" => own(true, true),
        _ => Err(format!("there is no contender {name}").into()),
    }
}

/// The columns in which there are nulls, or may be, for all that the footers say.
fn columns_with_nulls(paths: &[String]) -> Outcome<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for path in paths {
        let file = SerializedFileReader::new(std::fs::File::open(path)?)?;
        for group in file.metadata().row_groups() {
            for chunk in group.columns() {
                let is_flat = chunk.column_descr().max_rep_level() == 0;
                let nulls = chunk.statistics().and_then(Statistics::null_count_opt).filter(|_| is_flat);
                let may_be = chunk.column_descr().max_def_level() > 0;
                let name = &chunk.column_path().parts()[0];
                if nulls.map_or(may_be, |nulls| nulls > 0) && !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
    }
    Ok(names)
}

/// Of all threads of this process.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "no process takes 2^52 seconds")]
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    seconds
}
