//! The comb of a source: at which positions of a mixture it stands.

/// Where the occurrences of one source stand: at the same places of each period.
///
/// Occurrence `c` of a source with `a` places in a period of `M` stands at position `c / a * M + places[c % a]`. A dataset by
/// itself stands at each position: it has the only place of a period of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comb {
    length: u64,
    /// Ascending, and at least one.
    places: Vec<u64>,
}

impl Comb {
    /// That of a source with these places, ascending, of a period of `length`; `None` without a place.
    #[must_use]
    pub fn new(length: u64, places: &[u64]) -> Option<Self> {
        (!places.is_empty()).then(|| Self { length, places: places.to_vec() })
    }

    /// That of a dataset by itself.
    #[must_use]
    pub fn alone() -> Self {
        Self { length: 1, places: vec![0] }
    }

    /// The number of its places in a period.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.places.len() as u64
    }

    /// The number of places of a period.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many of its occurrences stand before a position.
    #[must_use]
    pub fn count_before(&self, position: u64) -> u64 {
        let place = position % self.length;
        let in_period = self.places.partition_point(|&own| own < place) as u64;
        (position / self.length).saturating_mul(self.weight()).saturating_add(in_period)
    }

    /// The position of an occurrence.
    #[must_use]
    pub fn position_of(&self, occurrence: u64) -> u64 {
        let place = usize::try_from(occurrence % self.weight()).map_or(0, |index| self.places[index]);
        (occurrence / self.weight()).saturating_mul(self.length).saturating_add(place)
    }

    /// Where an occurrence is among those of its period.
    #[must_use]
    pub fn phase_of(&self, occurrence: u64) -> u64 {
        occurrence % self.weight()
    }

    /// How far behind the occurrence of a phase the one `count` behind it stands.
    #[must_use]
    pub fn distance(&self, phase: u64, count: u64) -> u64 {
        self.position_of(phase.saturating_add(count)) - self.position_of(phase)
    }

    /// The same of the occurrence of a phase and all behind it, one after another.
    pub fn distances(&self, phase: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.position_of(phase);
        let mut index = usize::try_from(phase % self.weight()).unwrap_or(0);
        let mut period = 0;
        std::iter::from_fn(move || {
            let found = period + self.places[index] - first;
            index += 1;
            if index == self.places.len() {
                (index, period) = (0, period + self.length);
            }
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_stand_at_the_same_places_of_each_period() {
        let comb = Comb::new(10, &[1, 4, 9]).unwrap();
        let positions: Vec<u64> = (0..7).map(|occurrence| comb.position_of(occurrence)).collect();
        assert_eq!(positions, [1, 4, 9, 11, 14, 19, 21]);
        for position in 0..30 {
            let before = positions.iter().filter(|own| **own < position).count() as u64;
            assert_eq!(comb.count_before(position).min(7), before);
        }
        for phase in 0..3 {
            let distances: Vec<u64> = comb.distances(phase).take(9).collect();
            assert_eq!(distances, (0..9).map(|count| comb.distance(phase, count)).collect::<Vec<_>>());
            assert_eq!(distances[4], comb.position_of(phase + 4) - comb.position_of(phase));
        }
        assert_eq!(Comb::new(10, &[]), None);
    }

    #[test]
    fn a_dataset_by_itself_stands_at_each_position() {
        let comb = Comb::new(1, &[0]).unwrap();
        assert!(
            (0..9).all(|number| comb.position_of(number) == number && comb.count_before(number) == number)
        );
        assert!(comb.distances(0).take(9).eq(0..9));
    }
}
