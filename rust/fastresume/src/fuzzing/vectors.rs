//! Fuzz targets for the inner loops as compiled for this processor, compared with slow and obvious ones.

use std::cell::Cell;

use bytemuck::Pod;

use super::choices::{Choices, Steps};
use crate::format::encoding::bit_packing::single;
use crate::simd::{self, EXPAND_SPARE, FeistelRounds, Move, ROUNDS};

/// Chooses one of the loops, and runs it over the rest of the input.
pub fn vectors(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (kind, width) = (choices.byte() % 8, usize::from(choices.byte()));
    let (count, mut steps) = (choices.number() % 3000, choices.steps());
    let rest = choices.rest;
    match kind {
        0 => unpack(rest, width % 33, count),
        1 => {
            look_up::<u8>(rest, width % 33, count, &mut steps);
            look_up::<u16>(rest, width % 33, count, &mut steps);
            look_up::<u32>(rest, width % 33, count, &mut steps);
            look_up::<u64>(rest, width % 33, count, &mut steps);
        }
        2 => {
            expand::<u8>(rest, &mut steps);
            expand::<u16>(rest, &mut steps);
            expand::<u32>(rest, &mut steps);
            expand::<u64>(rest, &mut steps);
        }
        3 => turn(rest, 1 + width % 40),
        4 => shift(rest, 1 + width % 40),
        5 => scatter(rest, 1 + width, &mut steps),
        6 => raise(rest, 1 + width % 20),
        _ => rounds(rest, count, &mut steps),
    }
}

/// The whole numbers in some bytes.
fn numbers<P: Pod>(bytes: &[u8]) -> Vec<P> {
    bytes.chunks_exact(size_of::<P>()).map(bytemuck::pod_read_unaligned).collect()
}

fn unpack(bytes: &[u8], width: usize, count: usize) {
    let mut found = vec![7; count];
    let done = simd::unpack_groups(bytes, width, &mut found);
    assert!(done <= count && done.is_multiple_of(8));
    for (index, &value) in found[..done].iter().enumerate() {
        assert_eq!(u64::from(value), single(bytes, width, index), "integer {index} of {width} bits");
    }
    assert!(found[done..].iter().all(|&value| value == 7), "more is written than is stated");
}

fn look_up<P: Pod + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    width: usize,
    count: usize,
    steps: &mut Steps,
) {
    let length = [steps.below(3000), 1 << width.min(11)][steps.below(2)];
    let table: Vec<P> = (0..length)
        .map(|index| {
            bytemuck::pod_read_unaligned(&(index as u64 * 0x9e37_79b9).to_le_bytes()[..size_of::<P>()])
        })
        .collect();
    for look_up in [simd::look_up_groups, simd::load_groups, simd::gather_groups] {
        let mut found = vec![P::zeroed(); count];
        match look_up(bytes, width, &table, &mut found) {
            Ok(done) => {
                assert!(done <= count && done.is_multiple_of(8));
                for (index, found) in found[..done].iter().enumerate() {
                    let place = usize::try_from(single(bytes, width, index)).unwrap_or(usize::MAX);
                    assert_eq!(Some(found), table.get(place), "integer {index} of {width} bits");
                }
            }
            Err(index) => assert!(index as usize >= length, "index {index} of {length} is refused"),
        }
    }
    let indices: Vec<u32> = numbers::<u16>(bytes).into_iter().map(u32::from).collect();
    let mut found = vec![P::zeroed(); indices.len()];
    let is_inside = indices.iter().all(|&index| (index as usize) < length);
    assert_eq!(simd::gather(&table, &indices, &mut found), is_inside);
    if is_inside {
        assert!(found.iter().zip(&indices).all(|(found, &index)| *found == table[index as usize]));
    }
}

fn expand<P: Pod + PartialEq + std::fmt::Debug>(bytes: &[u8], steps: &mut Steps) {
    let bits: Vec<u64> = numbers(bytes);
    let count = (bits.len() * 64).saturating_sub(steps.below(64));
    let is_there = |place: usize| bits[place / 64] >> (place % 64) & 1 == 1;
    let value = |index: usize| -> P {
        bytemuck::pod_read_unaligned(
            &((index as u64).wrapping_mul(0x9e37_79b9_7f4a)).to_le_bytes()[..size_of::<P>()],
        )
    };
    let present = (0..count).filter(|&place| is_there(place)).count();
    let source: Vec<P> = (0..present + EXPAND_SPARE).map(value).collect();
    let null = value(1 << 20);
    let mut found = vec![P::zeroed(); count];
    simd::expand(&source, &bits, null, &mut found);
    let mut next = source.iter();
    for (place, found) in found.iter().enumerate() {
        let expected = if is_there(place) { next.next().unwrap_or(&null) } else { &null };
        assert_eq!(found, expected, "place {place} of {count}");
    }
    let mut marks = vec![9; count];
    simd::write_bits(bits.iter().copied(), &mut marks);
    assert!(marks.iter().enumerate().all(|(place, &mark)| mark == u8::from(is_there(place))));
}

/// Columns to rows and back.
fn turn(bytes: &[u8], count: usize) {
    fn check<W: Pod + PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        count: usize,
        turn: impl Fn(&[&[W]], &mut [W]),
        split: impl Fn(&[W], &mut [&mut [W]]),
    ) {
        let numbers = numbers::<W>(bytes);
        let rows = numbers.len() / count;
        let columns: Vec<&[W]> = (0..count).map(|column| &numbers[column * rows..][..rows]).collect();
        let mut found = vec![W::zeroed(); rows * count];
        turn(&columns, &mut found);
        for (place, found) in found.iter().enumerate() {
            assert_eq!(*found, columns[place % count][place / count], "{count} columns of {rows} rows");
        }
        let mut back = vec![vec![W::zeroed(); rows]; count];
        split(&found, &mut back.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        assert_eq!(back, columns, "{count} columns of {rows} rows");
    }
    check::<u8>(bytes, count, simd::turn_1_byte, simd::split_plain);
    check::<u16>(bytes, count, simd::turn_2_bytes, simd::split_2_bytes);
    check::<u32>(bytes, count, simd::turn_4_bytes, simd::split_4_bytes);
    check::<u64>(bytes, count, simd::turn_8_bytes, simd::split_8_bytes);
}

/// Columns to rows, with floors added and subtracted.
fn shift(bytes: &[u8], count: usize) {
    let numbers: Vec<u64> = numbers(bytes);
    let (floors, numbers) = numbers.split_at(count.min(numbers.len()));
    if floors.len() < count {
        return;
    }
    let rows = numbers.len() / count;
    let columns: Vec<&[u64]> = numbers.chunks_exact(rows.max(1)).take(count).collect();
    if rows == 0 {
        return;
    }
    let above = |place: usize| columns[place % count][place / count].wrapping_sub(floors[place % count]);
    let mut lowered = vec![0; rows * count];
    let fits = (0..rows * count).all(|place| u32::try_from(above(place)).is_ok());
    assert_eq!(simd::turn_lowered(&columns, floors, &mut lowered), fits);
    if fits {
        assert!(lowered.iter().enumerate().all(|(place, &found)| u64::from(found) == above(place)));
    }
    let low: Vec<Vec<u32>> =
        columns.iter().map(|column| self::numbers(&bytemuck::cast_slice(column)[..4 * rows])).collect();
    let low: Vec<&[u32]> = low.iter().map(Vec::as_slice).collect();
    let mut raised = vec![0; rows * count];
    simd::turn_raised(&low, floors, &mut raised);
    let expected =
        |place: usize| floors[place % count].wrapping_add(low[place % count][place / count].into());
    assert!(raised.iter().enumerate().all(|(place, &found)| found == expected(place)));
}

/// Rows to their places, in one output and in several, as they are and with floors added.
fn scatter(bytes: &[u8], row_bytes: usize, steps: &mut Steps) {
    let rows = bytes.len() / row_bytes;
    // A permutation: rows are taken from the front, in strides.
    let mut places: Vec<u32> = (0..u32::try_from(rows).unwrap_or(0)).collect();
    for last in (1..rows).rev() {
        places.swap(last, steps.below(last + 1));
    }
    let moves: Vec<Move> = places.iter().zip(0..).map(|(&to, from)| Move { from, to }).collect();
    let mut found = vec![0; rows * row_bytes];
    simd::scatter(&bytes[..rows * row_bytes], row_bytes, &moves, &mut found);
    let is_there = |output: &[u8], row: usize, to: usize| {
        output[to * row_bytes..][..row_bytes] == bytes[row * row_bytes..][..row_bytes]
    };
    assert!((0..rows).all(|row| is_there(&found, row, places[row] as usize)), "rows of {row_bytes} bytes");
    let shift = steps.below(4);
    let mut outputs = vec![vec![0; row_bytes << shift]; (rows / 2) >> shift];
    simd::deal(
        &bytes[..rows * row_bytes],
        row_bytes,
        &places,
        &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
        u32::try_from(shift).unwrap_or(0),
    );
    for (row, &to) in places.iter().enumerate() {
        let to = to as usize;
        if let Some(output) = outputs.get(to >> shift) {
            assert!(is_there(output, row, to & ((1 << shift) - 1)), "rows of {row_bytes} bytes, dealt");
        }
    }
    let (count, source) = (1 + row_bytes % 20, numbers::<u32>(bytes));
    let rows = source.len() / count;
    let floors: Vec<u64> =
        (0..count as u64).map(|column| column.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let moves: Vec<Move> =
        (0..u32::try_from(rows).unwrap_or(0)).rev().zip(0..).map(|(to, from)| Move { from, to }).collect();
    let mut raised = vec![0; rows * count];
    simd::scatter_raised(&source[..rows * count], &floors, &moves, &mut raised);
    for (place, &found) in raised.iter().enumerate() {
        let number = source[(rows - 1 - place / count) * count + place % count];
        assert_eq!(found, floors[place % count].wrapping_add(number.into()), "rows of {count} numbers");
    }
}

/// The elementwise maximum of some rows.
fn raise(bytes: &[u8], rows: usize) {
    let all: Vec<i64> = numbers(bytes);
    let count = all.len() / (rows + 1);
    let (first, rest) = all.split_at(count);
    let cells: Vec<Vec<Cell<i64>>> = rest
        .chunks_exact(count.max(1))
        .take(rows)
        .map(|row| row.iter().copied().map(Cell::new).collect())
        .collect();
    let cells: Vec<&[Cell<i64>]> = cells.iter().map(Vec::as_slice).collect();
    let mut found = first.to_vec();
    simd::raise(&mut found, &cells);
    for (place, found) in found.iter().enumerate() {
        let of_rows = cells.iter().map(|row| row[place].get()).fold(first[place], i64::max);
        assert_eq!(*found, of_rows);
    }
}

/// The rounds of a permutation, done one by one, and undone for many values at once.
fn rounds(bytes: &[u8], count: usize, steps: &mut Steps) {
    let keys: [u64; ROUNDS] =
        std::array::from_fn(|round| numbers(bytes).get(round).copied().unwrap_or(round as u64));
    let sides = [1 + steps.below(300) as u64, 1 + steps.below(300) as u64];
    let halves = [steps.below(300) as u64 % sides[0], steps.below(300) as u64 % sides[1]];
    let count = count.min(usize::try_from(sides[1] - halves[1]).unwrap_or(0));
    let mut values = vec![0; count];
    FeistelRounds::new(&keys, sides).undo(halves, &mut values);
    for (value, right) in values.iter().zip(halves[1]..) {
        let [mut left_half, mut right_half] = [value / sides[1], value % sides[1]];
        for (round, key) in keys.iter().enumerate() {
            if round % 2 == 0 {
                left_half = (left_half + simd::below(right_half ^ key, sides[0])) % sides[0];
            } else {
                right_half = (right_half + simd::below(left_half ^ key, sides[1])) % sides[1];
            }
        }
        assert_eq!([left_half, right_half], [halves[0], right], "sides of {sides:?}");
    }
}
