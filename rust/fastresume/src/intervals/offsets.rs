//! Offsets that many readers tell, where callers hold them.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::memory::buffer::Memory;
use crate::simd;

/// The greatest number at each place of all states, as signed numbers of 64 bits. Whoever changes numbers meanwhile gets any of
/// them.
///
/// # Errors
/// `Argument` if states differ in their length, or there is no memory.
pub fn greatest(states: &[&[Cell<i64>]]) -> Result<Memory> {
    let mut greatest = Memory::lent();
    let Some((first, others)) = states.split_first() else { return Ok(greatest) };
    if let Some(other) = others.iter().find(|other| other.len() != first.len()) {
        return Err(Error::Argument(format!(
            "states must have one length, found {} and {}",
            first.len(),
            other.len()
        )));
    }
    greatest.resize(size_of_val(*first))?;
    let numbers: &mut [i64] = bytemuck::cast_slice_mut(greatest.bytes_mut());
    for (number, of_first) in numbers.iter_mut().zip(*first) {
        *number = of_first.get();
    }
    simd::raise(numbers, others);
    Ok(greatest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_of_any_number_of_states_is_found_at_each_place() {
        let number = |state: i64, place: i64| (state * 7919 + place * 104_729) % 1009 - 500;
        for places in [0, 1, 3, 64, 101] {
            let states: Vec<Vec<Cell<i64>>> = (0..20)
                .map(|state| (0..places).map(|place| Cell::new(number(state, place))).collect())
                .collect();
            for count in 1..=20 {
                let given: Vec<&[Cell<i64>]> = states[..count].iter().map(Vec::as_slice).collect();
                let found = greatest(&given).unwrap();
                let expected = |place| (0..).take(count).map(|state| number(state, place)).max();
                let expected: Option<Vec<i64>> = (0..places).map(expected).collect();
                assert_eq!(Some(bytemuck::cast_slice(found.bytes()).to_vec()), expected);
            }
        }
    }

    #[test]
    fn states_of_different_lengths_are_refused() {
        let state = [const { Cell::new(1) }; 4];
        let found = greatest(&[&state, &state, &state[..3]]).unwrap_err().to_string();
        assert!(found.contains("found 4 and 3"), "{found}");
        assert!(greatest(&[]).unwrap().is_empty());
    }
}
