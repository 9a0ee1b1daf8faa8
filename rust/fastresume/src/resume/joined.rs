//! The sources of the mixture that follows a state: those that the state has, and those that are named.

/// A source of the mixture that follows: where it is in the state, and among those that are named.
pub(super) struct Joined {
    pub from: Option<usize>,
    pub own: Option<usize>,
}

/// Which source is named for each of a state's, of which those that are named stand at `places`.
fn own_of(places: &[Option<usize>], count: usize) -> Vec<Option<usize>> {
    let mut found = vec![None; count];
    for (own, place) in places.iter().enumerate() {
        if let Some(place) = *place {
            found[place] = Some(own);
        }
    }
    found
}

/// The sources of a state in its order, whatever order they are named in, and between them those that are new.
pub(super) fn merged(places: &[Option<usize>], count: usize) -> Vec<Joined> {
    let own_of = own_of(places, count);
    let known = |index: usize| Joined { from: Some(index), own: own_of[index] };
    let (mut found, mut next) = (Vec::new(), 0);
    for (own, place) in places.iter().enumerate() {
        match *place {
            Some(place) => {
                found.extend((next..=place).map(known));
                next = next.max(place + 1);
            }
            None => found.push(Joined { from: None, own: Some(own) }),
        }
    }
    found.extend((next..count).map(known));
    found
}

/// The same in the order in which the user has named them, those that are gone behind them.
pub(super) fn in_named_order(places: &[Option<usize>], count: usize) -> Vec<Joined> {
    let named = places.iter().enumerate().map(|(own, &from)| Joined { from, own: Some(own) });
    let gone = own_of(places, count).into_iter().enumerate().filter(|(_, own)| own.is_none());
    named.chain(gone.map(|(index, own)| Joined { from: Some(index), own })).collect()
}
