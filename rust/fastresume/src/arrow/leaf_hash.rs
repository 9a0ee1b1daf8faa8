//! A hash of what the rows of a leaf hold.

/// So many pairs of levels are hashed together.
const PAIRS: usize = 8192;

/// Hashes of the levels of rows, and of their values.
#[derive(Debug, Default)]
pub struct LeafHash {
    levels: blake3::Hasher,
    values: blake3::Hasher,
    /// A definition level that all rows so far have, and how many do. They are not in the hash yet.
    same: (u8, usize),
    is_mixed: bool,
}

/// Both hashes.
#[derive(Debug, Clone, Copy)]
pub struct FoundHash {
    levels: FoundLevels,
    values: blake3::Hash,
}

/// The hash of levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundLevels {
    /// All are one definition level, so many times.
    Same(u8, usize),
    Mixed(blake3::Hash),
}

impl LeafHash {
    /// Adds pairs of a repetition level and a definition level.
    pub fn add_levels(&mut self, pairs: &[u8]) {
        if !self.is_mixed {
            add_pairs(&mut self.levels, self.same);
            self.is_mixed = true;
        }
        self.levels.update(pairs);
    }

    /// Adds so many pairs of the repetition level 0 and one definition level.
    pub fn add_same_levels(&mut self, level: u8, count: usize) {
        if count == 0 {
            return;
        }
        if !self.is_mixed && (self.same.1 == 0 || self.same.0 == level) {
            self.same = (level, self.same.1 + count);
            return;
        }
        self.add_levels(&[]);
        add_pairs(&mut self.levels, (level, count));
    }

    /// Adds bytes of values.
    pub fn add_values(&mut self, bytes: &[u8]) {
        self.values.update(bytes);
    }

    /// What was added.
    #[must_use]
    pub fn found(&self) -> FoundHash {
        let (level, count) = self.same;
        let levels = if self.is_mixed {
            FoundLevels::Mixed(self.levels.finalize())
        } else {
            FoundLevels::Same(level, count)
        };
        FoundHash { levels, values: self.values.finalize() }
    }
}

impl FoundHash {
    /// The hashes of the levels and of the values of many leaves. Where all levels of some are the same, as they are in
    /// most, they are hashed once.
    #[must_use]
    pub fn of_leaves(leaves: &[Self]) -> Vec<[blake3::Hash; 2]> {
        let mut known: Vec<(FoundLevels, blake3::Hash)> = Vec::new();
        let mut levels_of = |levels: FoundLevels| {
            if let FoundLevels::Mixed(hash) = levels {
                return hash;
            }
            if let Some((_, hash)) = known.iter().rev().find(|(of, _)| *of == levels) {
                return *hash;
            }
            let mut hasher = blake3::Hasher::new();
            if let FoundLevels::Same(level, count) = levels {
                add_pairs(&mut hasher, (level, count));
            }
            let hash = hasher.finalize();
            known.push((levels, hash));
            hash
        };
        leaves.iter().map(|leaf| [levels_of(leaf.levels), leaf.values]).collect()
    }
}

/// Adds so many pairs of the repetition level 0 and one definition level.
fn add_pairs(hasher: &mut blake3::Hasher, (level, mut count): (u8, usize)) {
    let pairs = [[0, level]; PAIRS];
    while count > 0 {
        let some = count.min(PAIRS);
        hasher.update(pairs[..some].as_flattened());
        count -= some;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_the_same_are_hashed_as_others_however_they_come() {
        let found = |of: &LeafHash| FoundHash::of_leaves(&[of.found()])[0];
        for counts in [vec![], vec![(1, 3)], vec![(1, 20_000)], vec![(0, 9), (1, 0), (1, 8192), (0, 1)]] {
            let (mut one, mut other, mut last) =
                (LeafHash::default(), LeafHash::default(), LeafHash::default());
            for &(level, count) in &counts {
                one.add_same_levels(level, count);
                other.add_levels(&[0, level].repeat(count));
                for _ in 0..count {
                    last.add_same_levels(level, 1);
                }
            }
            let whole: Vec<u8> = counts.iter().flat_map(|&(level, count)| [0, level].repeat(count)).collect();
            let expected = [blake3::hash(&whole), blake3::hash(b"")];
            assert_eq!([found(&one), found(&other), found(&last)], [expected; 3], "{counts:?}");
        }
        let mut leaves = [LeafHash::default(), LeafHash::default(), LeafHash::default()];
        leaves[1].add_same_levels(1, 5);
        leaves[2].add_values(b"abc");
        let expected = leaves.each_ref().map(found);
        assert_eq!(FoundHash::of_leaves(&leaves.each_ref().map(LeafHash::found)), expected);
    }
}
