//! Writes inputs to begin with, for each target, into a folder: what a writer makes of some values.

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = std::env::args_os().nth(1).ok_or("the argument is a folder, as target/fuzz/corpus")?;
    for (number, (target, bytes)) in fastresume::fuzzing::seeds()?.iter().enumerate() {
        let folder = Path::new(&corpus).join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}
