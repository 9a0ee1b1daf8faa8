//! What one thread needs for the same files: to read and decompress them, to decode them by the `parquet`
//! crate, and to have ready batches.
//!
//! `fastresume-floor ROUNDS FILE...` prints a line for each contender: its name, and in each round the decoded
//! bytes per CPU second. All of them have their turns in one process, which does nothing else; what is opened
//! counts. `floor.py` makes a table of that.

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

/// In one turn passes follow each other for so long, at least.
const TURN: Duration = Duration::from_millis(500);

/// A way to read all files; gives the rows.
type Pass<'a> = Box<dyn FnMut() -> Outcome<u64> + 'a>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().ok_or("the number of rounds is missing")?.parse()?;
    let paths: Vec<String> = arguments.collect();
    let (mut rows, mut bytes) = (0, 0);
    for path in &paths {
        let (of_rows, of_bytes) = arrow::value_bytes(path)?;
        rows += of_rows;
        bytes += of_bytes;
    }
    let mut contenders = contenders(&paths, bytes / rows.max(1))?;
    let mut found = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for turn in 0..contenders.len() {
            let place = (turn + round) % contenders.len(); // nobody always follows the same one
            let (name, pass) = &mut contenders[place];
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
            let speed = (passes * bytes) as f64 / (cpu_seconds() - began);
            // The first round lets memory and caches settle.
            if round > 0 {
                found[place].push(format!("{speed:.0}"));
            }
        }
    }
    println!("rows {rows}\nbytes {bytes}");
    for ((name, _), speeds) in contenders.iter().zip(found) {
        println!("{name} {}", speeds.join(" "));
    }
    Ok(())
}

fn contenders(paths: &[String], row_bytes: u64) -> Outcome<Vec<(&'static str, Pass<'_>)>> {
    let mut buffers = pages::Buffers::default();
    let floor: Pass<'_> =
        Box::new(move || paths.iter().map(|path| Ok(pages::expand_all(path, &mut buffers)?.0)).sum());
    let arrow = |batch_rows| -> Pass<'_> {
        Box::new(move || paths.iter().map(|path| arrow::read_all(path, batch_rows, row_bytes)).sum())
    };
    let with_nulls = columns_with_nulls(paths)?;
    let own = |is_stacked, is_shuffled| -> Pass<'_> {
        let way = Way { is_stacked, is_shuffled, with_nulls: with_nulls.clone() };
        Box::new(move || own::read_all(paths, &way))
    };
    Ok(vec![
        ("floor", floor),
        ("arrow-group", arrow(BatchRows::Group)),
        ("arrow-small", arrow(BatchRows::Small)),
        ("own", own(false, false)),
        ("own-stacked", own(true, false)),
        ("own-shuffled", own(true, true)),
    ])
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
