//! From columns to rows: the inner loops that write what is decoded to where it is delivered.

use bytemuck::Pod;

/// Rows that are written together, so that they stay in the nearest cache.
const TILE: usize = 64;

/// Rows and columns of what is turned in registers.
const SIDE: usize = 4;

/// Which rows of what was decoded go to which rows of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// `count` rows from row `from` on, to row `to` and those behind it.
    Run {
        /// The first row of what was decoded.
        from: usize,
        /// The row of the batch that it becomes.
        to: usize,
        /// How many rows.
        count: usize,
    },
    /// Row `.0` of what was decoded becomes row `.1` of the batch.
    Each(&'a [(u32, u32)]),
}

/// Columns of numbers of one width, one behind another, of `rows` rows each.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The numbers, aligned to them.
    pub bytes: &'a [u8],
    /// Bytes of a number: 1, 2, 4 or 8.
    pub width: usize,
    /// How many columns there are.
    pub count: usize,
    /// How many rows.
    pub rows: usize,
}

/// Runs a loop over numbers of a width.
macro_rules! by_width {
    ($width:expr, $call:ident($first:expr, $($rest:expr),*)) => {
        match $width {
            1 => $call::<u8>($first, $($rest),*),
            2 => $call::<u16>($first, $($rest),*),
            4 => $call::<u32>($first, $($rest),*),
            _ => $call::<u64>($first, $($rest),*),
        }
    };
}

impl Columns<'_> {
    /// Writes the rows from `first` on to `output`, row by row, until it is full.
    pub fn interleave(&self, first: usize, output: &mut [u8]) {
        if self.count == 1 {
            let start = first * self.width;
            output.copy_from_slice(&self.bytes[start..start + output.len()]);
        } else {
            by_width!(self.width, interleave(self, first, output));
        }
    }

    /// Copies numbers of the only column: from row `.0` to row `.1` of `output`.
    pub fn scatter(&self, places: &[(u32, u32)], output: &mut [u8]) {
        by_width!(self.width, scatter(self.bytes, places, output));
    }
}

fn interleave<W: Pod>(columns: &Columns<'_>, first: usize, output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(columns.bytes);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    let count = columns.count;
    let mut row = first;
    for tile in output.chunks_mut(TILE * count) {
        let rows = tile.len() / count;
        let of = |column: usize| &source[column * columns.rows + row..][..rows];
        let blocks = count / SIDE * SIDE;
        for column in (0..blocks).step_by(SIDE) {
            interleave_block(std::array::from_fn(|side| of(column + side)), count, column, tile);
        }
        for column in blocks..count {
            for (place, &value) in tile.chunks_exact_mut(count).zip(of(column)) {
                place[column] = value;
            }
        }
        row += rows;
    }
}

/// Writes a few columns to rows of `count` numbers, from number `column` of each on.
fn interleave_block<W: Pod>(source: [&[W]; SIDE], count: usize, column: usize, tile: &mut [W]) {
    let mut rows = 0;
    for (square, lines) in tile.chunks_exact_mut(SIDE * count).enumerate() {
        let first = square * SIDE;
        // Loaded and stored as squares, which the compiler turns in registers.
        let loaded: [[W; SIDE]; SIDE] =
            source.map(|of| std::array::from_fn(|row| of[first..first + SIDE][row]));
        for (row, line) in lines.chunks_exact_mut(count).enumerate() {
            line[column..column + SIDE].copy_from_slice(&loaded.map(|of| of[row]));
        }
        rows = first + SIDE;
    }
    for (row, line) in tile.chunks_exact_mut(count).enumerate().skip(rows) {
        for (place, of) in line[column..].iter_mut().zip(source) {
            *place = of[row];
        }
    }
}

fn scatter<W: Pod>(source: &[u8], places: &[(u32, u32)], output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(source);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    for &(from, to) in places {
        output[to as usize] = source[from as usize];
    }
}

/// Copies rows of `bytes` bytes: from row `.0` of `source` to row `.1` of `output`.
pub fn scatter_rows(source: &[u8], bytes: usize, places: &[(u32, u32)], output: &mut [u8]) {
    for &(from, to) in places {
        let (from, to) = (from as usize * bytes, to as usize * bytes);
        output[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
    }
}
