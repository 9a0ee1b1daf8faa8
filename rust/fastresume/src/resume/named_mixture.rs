//! What a user asks of a mixture, and which source of a state each of its sources is.
//!
//! A source is known by its name. What a state has under a name that is gone, and is here under a new one, would begin anew
//! in silence: it is refused, with the renaming to write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Result, plural, quoted};
use crate::order::mixture::{Axis, Growth, Mixture, MixtureSource, MixtureStop};
use crate::order::pass_order::{OrderChoice, OrderKind};
use crate::order::weights::Weights;

/// One error has this many names at most.
const MOST_NAMED: usize = 8;

/// Files that may be more than they were.
pub trait Grows: std::fmt::Debug + Send + Sync {
    /// Whether the first of them have this hash, as [`Identity::short_hash`] makes it, and so many rows.
    ///
    /// # Errors
    /// `State` if they can't be compared.
    fn began_with(&self, hash: &str, rows: u64) -> Result<bool>;
}

/// A source, as a user names it.
#[derive(Debug, Clone)]
pub struct NamedSource {
    /// Its name.
    pub name: String,
    /// The hash of its files and selected rows.
    pub fingerprint: String,
    /// The number of its selected rows.
    pub rows: u64,
    /// The order that it has if no state says otherwise.
    pub order: OrderKind,
    /// What was named of it.
    pub choice: OrderChoice,
    /// Its files, where a state of fewer of them is understood.
    pub files: Option<Arc<dyn Grows>>,
    /// Whether such a state fits.
    pub appends: bool,
}

impl NamedSource {
    /// What a state says of it when nothing was taken of it.
    pub(super) fn begun(&self) -> MixtureSource {
        let shuffle = match self.order {
            OrderKind::Shuffled { seed, block_rows, window_rows } => Some((seed, block_rows, window_rows)),
            _ => None,
        };
        let (name, hash) = (self.name.clone(), self.fingerprint.clone());
        MixtureSource { name, hash, rows: self.rows, shuffle, taken: Vec::new(), growth: Growth::default() }
    }

    /// Whether a source of a state is this one: of its files, or of the first of them, in its order.
    fn is_of(&self, found: &MixtureSource) -> Result<bool> {
        let is_same = (&found.hash, found.rows) == (&self.fingerprint, self.rows);
        let files = self.files.as_ref().filter(|_| !is_same && found.rows <= self.rows);
        let is_of = is_same || files.map_or(Ok(false), |files| files.began_with(&found.hash, found.rows))?;
        Ok(is_of && self.choice.contradiction(&order_of(found)).is_none())
    }

    /// Refuses the state of another dataset under this name.
    fn check(&self, found: &MixtureSource) -> Result<()> {
        let foreign = |what: &'static str, found: String, own: String| {
            let name = quoted(&self.name);
            let message =
                format!("source '{name}': the state is of another {what}: {found}, this one is {own}");
            Err(Error::Foreign { what, message })
        };
        if (&found.hash, found.rows) != (&self.fingerprint, self.rows) {
            let has_grown = match &self.files {
                Some(files) => files.began_with(&found.hash, found.rows)?,
                None => false,
            };
            if !has_grown || !self.appends {
                let named = |hash: &str, rows: u64| format!("{} with {rows} rows", quoted(hash));
                let hint = if has_grown {
                    ": it has more files than then, after those of the state. ParquetDataset(..., on_change='append') \
                     resumes with them"
                } else {
                    ": write the same files, rows=, filter= and unit= as then"
                };
                let own = named(&self.fingerprint, self.rows) + hint;
                return foreign("dataset", named(&found.hash, found.rows), own);
            }
        }
        match self.choice.contradiction(&order_of(found)) {
            Some((what, found, chosen)) => foreign(what, found, chosen),
            None => Ok(()),
        }
    }
}

/// The order of each pass of a source.
#[must_use]
pub fn order_of(source: &MixtureSource) -> OrderKind {
    source.shuffle.map_or(OrderKind::Sequential, |(seed, block_rows, window_rows)| OrderKind::Shuffled {
        seed,
        block_rows,
        window_rows,
    })
}

/// What a user asks of a mixture.
#[derive(Debug, Clone)]
pub struct NamedMixture {
    /// The sources that are read in a pass, in their order.
    pub sources: Vec<NamedSource>,
    /// Their weights, as [`whole_weights`](crate::order::weights::whole_weights) gives them.
    pub weights: Weights,
    /// Where a pass ends.
    pub stop: MixtureStop,
    /// The sources that are read in other passes.
    pub others: Vec<NamedSource>,
    /// The names that sources had, each with the one that it has now; with none where a source of these files begins anew.
    pub renamed: Vec<(String, Option<String>)>,
}

/// A source of a state for each name.
type SourcePlacesByName<'a> = BTreeMap<&'a str, usize>;

impl NamedMixture {
    /// A mixture of these sources in all its passes, none of which was renamed.
    #[must_use]
    pub fn new(sources: Vec<NamedSource>, weights: Weights, stop: MixtureStop) -> Self {
        Self { sources, weights, stop, others: Vec::new(), renamed: Vec::new() }
    }

    /// Where each of its sources is in a state; `None` of those that are new.
    pub(super) fn places(&self, mixture: &Mixture) -> Vec<Option<usize>> {
        let known = places_of(mixture);
        self.sources.iter().map(|source| known.get(&*source.name).copied()).collect()
    }

    /// What a state says, with the names that its sources have now; `None` if it has them. `taken` tells what was taken of
    /// its sources.
    ///
    /// # Errors
    /// `State` if a source is another dataset than that of its name, or is there under another name, if none is there, or
    /// if the renaming does not fit.
    pub(super) fn in_names_of_now(
        &self,
        mixture: &Mixture,
        taken: impl FnOnce() -> Result<Vec<Axis>>,
    ) -> Result<Option<Mixture>> {
        let renamed = self.after_renaming(mixture)?;
        let current = renamed.as_ref().unwrap_or(mixture);
        let known = places_of(current);
        for source in &self.sources {
            let Some(&place) = known.get(&*source.name) else { continue };
            source.check(&current.sources[place]).map_err(|error| {
                match (error, self.moved(current, &known)) {
                    (Error::Foreign { what, message: why }, Ok(moved))
                        if moved.iter().any(|(_, own)| *own == source.name) =>
                    {
                        let line = self.line(current, &moved);
                        Error::Foreign {
                            what,
                            message: format!("{why}. The state has it under another name: {line}"),
                        }
                    }
                    (error, _) => error,
                }
            })?;
        }
        self.check_new(current, &known, taken)?;
        Ok(renamed)
    }

    fn each(&self) -> impl Iterator<Item = &NamedSource> {
        self.sources.iter().chain(&self.others)
    }

    /// What a state says, with those names of now that it needs: a job that was renamed once goes on with the same
    /// renaming in its script.
    fn after_renaming(&self, mixture: &Mixture) -> Result<Option<Mixture>> {
        let known = places_of(mixture);
        let pairs = self.renamed.iter().filter_map(|(old, new)| Some((&**old, new.as_deref()?)));
        let pairs: Vec<_> = pairs.filter(|(old, new)| old != new && known.contains_key(old)).collect();
        if pairs.is_empty() {
            return Ok(None);
        }
        let own: BTreeMap<&str, &NamedSource> = self.each().map(|source| (&*source.name, source)).collect();
        let is_needed = |new: &str| match (own.get(new), known.get(new)) {
            (Some(source), Some(&place)) => source.is_of(&mixture.sources[place]).map(|fits| !fits),
            (Some(_), None) => Ok(true),
            (None, _) => Ok(false),
        };
        let (mut moved, mut taken) = (BTreeSet::new(), BTreeMap::new());
        for &(old, new) in &pairs {
            if is_needed(new)? {
                moved.insert(old);
            }
        }
        // Names that change places do so together.
        loop {
            let before = moved.len();
            let to: BTreeSet<&str> =
                pairs.iter().filter(|(old, _)| moved.contains(old)).map(|(_, new)| *new).collect();
            let together = pairs.iter().filter(|(old, new)| moved.contains(new) || to.contains(old));
            moved.extend(together.map(|(old, _)| *old).collect::<Vec<_>>());
            if moved.len() == before {
                break;
            }
        }
        for &(old, new) in pairs.iter().filter(|(old, _)| moved.contains(old)) {
            let twice = taken.insert(new, old);
            let stays = known.contains_key(new) && !moved.contains(new);
            if let Some(other) = twice.or(stays.then_some(new)) {
                return Err(Error::State(format!(
                    "renamed= says that {} was {}, but the state has {}, too, which would be it as well: give the source \
                     a name that the state does not have",
                    literal(new),
                    literal(old),
                    literal(other)
                )));
            }
        }
        let mut renamed = mixture.clone();
        for (new, old) in &taken {
            (*new).clone_into(&mut renamed.sources[known[old]].name);
            match &mut renamed.stop {
                MixtureStop::Round { round }
                    if mixture.stop == (MixtureStop::Round { round: (*old).to_owned() }) =>
                {
                    (*new).clone_into(round);
                }
                _ => {}
            }
        }
        Ok((!taken.is_empty()).then_some(renamed))
    }

    /// The sources of a state that are here under other names, with these: those of which it is known.
    fn moved<'a>(
        &'a self,
        mixture: &'a Mixture,
        known: &SourcePlacesByName<'_>,
    ) -> Result<Vec<(usize, &'a str)>> {
        let mut free: BTreeSet<usize> = (0..mixture.sources.len()).collect();
        let mut strays = Vec::new();
        for source in self.each() {
            match known.get(&*source.name) {
                Some(&place) if source.is_of(&mixture.sources[place])? => {
                    free.remove(&place);
                }
                _ => strays.push(source),
            }
        }
        let mut found = Vec::new();
        free.retain(|&place| !self.is_let_go(&mixture.sources[place].name));
        for source in strays {
            for &place in &free {
                if source.is_of(&mixture.sources[place])? {
                    found.push((place, &*source.name));
                }
            }
        }
        Ok(found)
    }

    /// Whether a source of a state was said to be none of this mixture's.
    fn is_let_go(&self, name: &str) -> bool {
        self.renamed.iter().any(|(old, new)| old == name && new.is_none())
    }

    /// Refuses sources that would begin at their first row although the state may have them, and a state that has none.
    fn check_new(
        &self,
        mixture: &Mixture,
        known: &SourcePlacesByName<'_>,
        taken: impl FnOnce() -> Result<Vec<Axis>>,
    ) -> Result<()> {
        let own: BTreeSet<&str> = self.each().map(|source| &*source.name).collect();
        let new: Vec<_> = self.each().filter(|source| !known.contains_key(&*source.name)).collect();
        let is_left = |name: &str| !own.contains(name) && !self.is_let_go(name);
        let mut left: Vec<usize> =
            (0..mixture.sources.len()).filter(|&place| is_left(&mixture.sources[place].name)).collect();
        if new.is_empty() || left.is_empty() {
            return Ok(());
        }
        let taken = taken()?;
        let rows_of = |place: usize| taken.get(place).map_or(0, Axis::rows_taken);
        left.retain(|&place| rows_of(place) > 0);
        let mut moved = self.moved(mixture, known)?;
        moved.retain(|(place, own)| left.contains(place) && !known.contains_key(own));
        if let Some(&(place, own)) = moved.first() {
            let old = literal(&mixture.sources[place].name);
            return Err(Error::State(format!(
                "source {} is not in the state, which has its files, order and seed as {old}, with {} delivered: \
                 they would be repeated: {}; or renamed={{{old}: None}} to read them again from the first row",
                literal(own),
                plural(rows_of(place), "row"),
                self.line(mixture, &moved)
            )));
        }
        if new.len() == own.len() {
            let of_state = listed(mixture.sources.iter().map(|source| literal(&source.name)));
            return Err(Error::State(format!(
                "the state is of a mixture of other sources: {of_state}; this one has {}. If they have other names and \
                 other files, write Mixture(..., renamed={{old: new}}); to start over, load no state",
                listed(self.each().map(|source| literal(&source.name)))
            )));
        }
        let pairs = new.iter().flat_map(|&source| left.iter().map(move |&place| (place, source)));
        let alike = pairs.clone().find_map(|(place, source)| {
            let found = &mixture.sources[place];
            let has_its_files = (&found.hash, found.rows) == (&source.fingerprint, source.rows);
            let contradiction = source.choice.contradiction(&order_of(found)).filter(|_| has_its_files);
            contradiction.map(|what| (place, source, Some(what)))
        });
        let Some((place, source, order)) =
            alike.or(pairs.map(|(place, source)| (place, source, None)).next())
        else {
            return Ok(());
        };
        let (old, name, rows) =
            (literal(&mixture.sources[place].name), literal(&source.name), plural(rows_of(place), "row"));
        let why = match order {
            Some((what, found, chosen)) => {
                format!(
                    "its files are there as {old}, with {rows} delivered, of another {what}: \
                     {found}, this one is {chosen}. They would be repeated"
                )
            }
            None => format!(
                "{old} of the state, with {rows} delivered, is not in this mixture. If the two \
                     are one source, these rows would be repeated"
            ),
        };
        let let_go = left.iter().map(|&place| (&*mixture.sources[place].name, None)).collect();
        Err(Error::State(format!(
            "source {name} is not in the state: {why}: {}; or {} to begin {name} at its first row",
            self.line(mixture, &[(place, &*source.name)]),
            self.renaming(&let_go)
        )))
    }

    /// What to write, so that these sources of a state go on as those of now.
    fn line(&self, mixture: &Mixture, moved: &[(usize, &str)]) -> String {
        let name_of = |place: usize| mixture.sources[place].name.as_str();
        let (mut pairs, mut own_names) = (BTreeMap::new(), BTreeSet::new());
        for &(place, own) in moved {
            if !pairs.contains_key(name_of(place)) && own_names.insert(own) {
                pairs.insert(name_of(place), Some(own));
            }
        }
        let line = format!("Mixture(..., {})", self.renaming(&pairs));
        if moved.len() == pairs.len() {
            return format!("write {line}");
        }
        let alike =
            moved.iter().map(|&(place, own)| format!("{} as {}", literal(name_of(place)), literal(own)));
        format!(
            "more than one has the same files, order and seed ({}): write which, as {line}",
            listed(alike)
        )
    }

    /// The argument that has these names beside those that it has now.
    fn renaming(&self, pairs: &BTreeMap<&str, Option<&str>>) -> String {
        let kept = self.renamed.iter().filter(|(old, _)| !pairs.contains_key(old.as_str()));
        let kept = kept.map(|(old, new)| (old.as_str(), new.as_deref()));
        let all = kept.chain(pairs.iter().map(|(old, new)| (*old, *new)));
        let of_none = || "None".to_owned();
        let each = all.map(|(old, new)| format!("{}: {}", literal(old), new.map_or_else(of_none, literal)));
        format!("renamed={{{}}}", listed(each))
    }
}

fn places_of(mixture: &Mixture) -> SourcePlacesByName<'_> {
    mixture.sources.iter().enumerate().rev().map(|(place, source)| (&*source.name, place)).collect()
}

/// A name as Python writes it.
fn literal(name: &str) -> String {
    let name = quoted(name);
    serde_json::to_string(&name).unwrap_or(name)
}

/// Some of them, and how many more there are.
fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    let first = names[..names.len() - more].join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}
