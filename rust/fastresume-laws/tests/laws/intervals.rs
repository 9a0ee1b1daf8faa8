//! The interval algebra, compared with plain sets of integers.

use std::collections::BTreeSet;
use std::ops::Range;

use fastresume::Intervals;
use proptest::prelude::*;

const TOTAL: u64 = 60;

fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
    prop::collection::vec(
        (0..TOTAL, 0..12_u64).prop_map(|(start, length)| start..(start + length).min(TOTAL)),
        0..8,
    )
}

fn positions(set: &Intervals) -> Vec<u64> {
    set.ranges().iter().cloned().flatten().collect()
}

fn is_canonical(set: &Intervals) -> bool {
    set.ranges().windows(2).all(|pair| pair[0].end < pair[1].start)
        && set.ranges().iter().all(|range| range.start < range.end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sets_hold_what_their_ranges_hold(ranges in ranges()) {
        let expected: BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
        let set = Intervals::new(ranges).unwrap();
        prop_assert!(is_canonical(&set));
        prop_assert_eq!(set.count(), expected.len() as u64);
        prop_assert_eq!(positions(&set), expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn union_and_complement_are_those_of_sets(left in ranges(), right in ranges(), total in 0..TOTAL + 5) {
        let of = |ranges: &[Range<u64>]| ranges.iter().cloned().flatten().collect::<BTreeSet<u64>>();
        let either: Vec<u64> = of(&left).union(&of(&right)).copied().collect();
        let neither: Vec<u64> = (0..total).filter(|position| !of(&left).contains(position)).collect();
        let (left, right) = (Intervals::new(left).unwrap(), Intervals::new(right).unwrap());
        let (union, complement) = (left.union(&right), left.complement(total));
        prop_assert!(is_canonical(&union) && is_canonical(&complement));
        prop_assert_eq!(positions(&union), either);
        prop_assert_eq!(positions(&complement), neither);
    }

    #[test]
    fn slices_count_along_the_set(ranges in ranges(), start in 0..TOTAL + 5, length in 0..TOTAL) {
        let set = Intervals::new(ranges).unwrap();
        let all = positions(&set);
        let within = |index: u64| usize::try_from(index).unwrap().min(all.len());
        let found: Vec<u64> = set.slice(start..start + length).flatten().collect();
        prop_assert_eq!(&found[..], &all[within(start)..within(start + length)]);
    }

    #[test]
    fn shares_hold_each_position_once_and_cut_at_multiples(
        ranges in ranges(), count in 1..7_u64, multiple_of in 1..9_u64,
    ) {
        let set = Intervals::new(ranges).unwrap();
        let shares: Vec<Vec<u64>> =
            (0..count).map(|index| positions(&set.share(index, count, multiple_of).unwrap())).collect();
        prop_assert_eq!(shares.concat(), positions(&set));
        let (last, others) = shares.split_last().unwrap();
        prop_assert!(others.iter().all(|share| (share.len() as u64).is_multiple_of(multiple_of)));
        let units: Vec<u64> = others.iter().chain([last]).map(|share| share.len() as u64 / multiple_of).collect();
        prop_assert!(units.iter().max().unwrap() - units.iter().min().unwrap() <= 1);
    }
}
