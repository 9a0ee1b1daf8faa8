//! The pages of a listing, each of which is believed only as far as it is what was asked for.
//!
//! A page that is none, or the last one where more should come, would lose rows in silence: so each is checked, of all stores.

use std::collections::HashSet;
use std::fmt;

use async_trait::async_trait;
use http::Uri;
use object_store::aws::AmazonS3;
use object_store::azure::MicrosoftAzure;
use object_store::gcp::GoogleCloudStorage;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{Error, ObjectMeta, ObjectStore, Result};
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::outlook::{Outlook, code_of};

/// So many pages in series may have no object: stores leave out what was deleted, and say so by empty pages.
const MOST_EMPTY: u32 = 2000;

/// One answer to a request for a list.
#[derive(Debug)]
pub struct ListingPage {
    pub objects: Vec<ObjectMeta>,
    /// What asks for the next one; none of the last.
    pub next: Option<String>,
}

/// A store, which can be asked for one page of a listing.
#[async_trait]
pub trait Client: ObjectStore {
    /// The objects below a directory: the first page, or the one that a token asks for.
    async fn page(&self, directory: Option<&Key>, token: Option<String>) -> Result<ListingPage>;
}

macro_rules! paged {
    ($($store:ty),*) => {$(
        #[async_trait]
        impl Client for $store {
            async fn page(&self, directory: Option<&Key>, page_token: Option<String>) -> Result<ListingPage> {
                let below = directory.map(|directory| format!("{directory}/"));
                let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
                let page = self.list_paginated(below.as_deref(), options).await?;
                Ok(ListingPage { objects: page.result.objects, next: page.page_token })
            }
        }
    )*};
}

paged!(AmazonS3, GoogleCloudStorage, MicrosoftAzure);

/// What is wrong with a page.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongPage(String);

impl fmt::Display for WrongPage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a page of the listing can't be believed: {}", self.0)
    }
}

impl std::error::Error for WrongPage {}

impl WrongPage {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<WrongPage> for Error {
    fn from(wrong: WrongPage) -> Self {
        Self::Generic { store: "HTTP", source: Box::new(wrong) }
    }
}

/// The listing that is being read.
#[derive(Debug, Default)]
pub struct ListingPages {
    /// What all names begin with.
    below: Option<String>,
    tokens: HashSet<String>,
    /// The last name, as long as they ascend; and all of them, once they do not.
    last: Option<Key>,
    names: Option<HashSet<Key>>,
    taken: Vec<ObjectMeta>,
    empty: u32,
}

impl ListingPages {
    pub fn below(directory: Option<&Key>) -> Self {
        Self { below: directory.map(|directory| format!("{directory}/")), ..Self::default() }
    }

    /// What is wrong with a page that is said to follow.
    ///
    /// # Errors
    /// Names that were listed, or do not lie there; a token that was there; page after page without a name.
    pub fn check(&self, page: &ListingPage) -> Result<(), WrongPage> {
        let below = self.below.as_deref().unwrap_or_default();
        let lies_elsewhere = |object: &&ObjectMeta| {
            !object.location.as_ref().starts_with(below) && !self.is_directory(&object.location)
        };
        if let Some(other) = page.objects.iter().find(lies_elsewhere) {
            return Err(WrongPage::new(format!(
                "it has '{}', which does not lie below '{below}'",
                other.location
            )));
        }
        if page.next.as_ref().is_some_and(|next| self.tokens.contains(next)) {
            return Err(WrongPage::new("what it says that the next page is was there before"));
        }
        if page.next.is_some() && page.objects.is_empty() && self.empty >= MOST_EMPTY {
            return Err(WrongPage::new(format!(
                "after {MOST_EMPTY} pages without an object, another one follows"
            )));
        }
        let first =
            page.objects.iter().find(|object| !self.is_directory(&object.location) && object.size > 0);
        let first = first.filter(|first| self.has(&first.location));
        match first {
            Some(first) => Err(WrongPage::new(format!("'{}' was listed before", first.location))),
            None => Ok(()),
        }
    }

    /// Whether a name is that of the directory itself, for which a store may keep an object.
    fn is_directory(&self, name: &Key) -> bool {
        self.below.as_deref().is_some_and(|below| below.strip_suffix('/') == Some(name.as_ref()))
    }

    /// Whether a name was listed.
    fn has(&self, name: &Key) -> bool {
        match (&self.names, &self.last) {
            (Some(names), _) => names.contains(name),
            (None, Some(last)) if name > last => false,
            (None, _) => self.taken.iter().any(|object| object.location == *name && object.size > 0),
        }
    }

    /// Takes a page, of whose objects all are kept that are meant; what asks for the next one.
    ///
    /// # Errors
    /// As for `check`.
    pub fn take(
        &mut self,
        page: ListingPage,
        is_meant: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<Option<String>, WrongPage> {
        self.check(&page)?;
        self.empty = if page.objects.is_empty() { self.empty + 1 } else { 0 };
        self.tokens.extend(page.next.clone());
        for object in page.objects {
            if self.is_directory(&object.location) {
                continue;
            }
            // `a/` without a byte marks a directory, and stands here as `a`: the name of another object, maybe.
            if object.size == 0 {
                if is_meant(&object) {
                    self.taken.push(object);
                }
                continue;
            }
            let name = &object.location;
            if self.names.is_none() && self.last.as_ref().is_some_and(|last| name <= last) {
                // Some stores list in no order.
                let named = self.taken.iter().filter(|object| object.size > 0);
                self.names = Some(named.map(|object| object.location.clone()).collect());
            }
            let is_new = if let Some(names) = &mut self.names {
                names.insert(name.clone())
            } else {
                self.last = Some(name.clone());
                true
            };
            if !is_new {
                return Err(WrongPage::new(format!("'{name}' was listed before")));
            }
            if is_meant(&object) {
                self.taken.push(object);
            }
        }
        Ok(page.next)
    }

    /// How many objects were kept.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    pub fn into_objects(self) -> Vec<ObjectMeta> {
        self.taken
    }
}

/// The root of the pages that an address asks for, if it asks for a list.
pub fn root_of(asked: &Uri) -> Option<&'static str> {
    let mut query = asked.query().unwrap_or_default().split('&');
    query.find_map(|pair| match pair {
        "comp=list" => Some("EnumerationResults"),
        _ if pair.starts_with("list-type=") => Some("ListBucketResult"),
        _ => None,
    })
}

/// Refuses an answer that is no whole page of a listing, with what another try may mend.
///
/// # Errors
/// It has another root, is cut, or says that more follows and not where.
pub fn check_page(body: &[u8], root: &str) -> Result<(), (WrongPage, Outlook)> {
    let found = Outline::of(body).map_err(|wrong| (wrong, Outlook::Seldom))?;
    if found.root != root {
        let code = code_of(body);
        let outlook = match code {
            Some(_) => Outlook::of_status(http::StatusCode::OK, &http::HeaderMap::new(), code),
            None => Outlook::Seldom,
        };
        let outlook = if outlook == Outlook::Hopeless { Outlook::Seldom } else { outlook };
        let code = code.map(|code| format!(" that says {}", fastresume::bounded(code))).unwrap_or_default();
        let found = fastresume::bounded(&found.root);
        return Err((WrongPage::new(format!("expected <{root}>, found <{found}>{code}")), outlook));
    }
    if found.is_truncated && !found.has_token {
        return Err((WrongPage::new("it says that more follows, and not where"), Outlook::Seldom));
    }
    Ok(())
}

/// What a page says of itself.
#[derive(Debug, Default)]
struct Outline {
    root: String,
    is_truncated: bool,
    has_token: bool,
}

impl Outline {
    fn of(body: &[u8]) -> Result<Self, WrongPage> {
        let mut reader = Reader::from_reader(body);
        let (mut found, mut path) = (Self::default(), Vec::new());
        let name = |name: quick_xml::name::LocalName<'_>| String::from_utf8_lossy(name.as_ref()).into_owned();
        loop {
            let event =
                reader.read_event().map_err(|cause| WrongPage::new(format!("it is no XML: {cause}")))?;
            match event {
                Event::Start(start) => {
                    if path.is_empty() && !found.root.is_empty() {
                        return Err(WrongPage::new("it is no XML: it has two roots"));
                    }
                    path.push(name(start.local_name()));
                    if path.len() == 1 {
                        found.root.clone_from(&path[0]);
                    }
                }
                Event::Empty(start) if path.is_empty() => found.root = name(start.local_name()),
                Event::End(_) => drop(path.pop()),
                Event::Text(text) => match &path[..] {
                    [_, name] if name == "IsTruncated" => {
                        found.is_truncated = text.trim_ascii().eq_ignore_ascii_case(b"true");
                    }
                    [_, name] if name == "NextContinuationToken" => {
                        found.has_token |= !text.trim_ascii().is_empty();
                    }
                    _ => {}
                },
                Event::Eof => break,
                _ => {}
            }
        }
        if found.root.is_empty() || !path.is_empty() {
            return Err(WrongPage::new("it is no whole XML document"));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::default_trait_access, reason = "what times are is the crate's")]
    fn page(names: &[&str], next: Option<&str>) -> ListingPage {
        let object = |name: &&str| ObjectMeta {
            location: Key::from(*name),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        };
        ListingPage { objects: names.iter().map(object).collect(), next: next.map(str::to_owned) }
    }

    fn counted(pages: Vec<ListingPage>) -> Result<usize, String> {
        let mut listing = ListingPages::below(Some(&Key::from("d")));
        for page in pages {
            listing.take(page, |_| true).map_err(|wrong| wrong.to_string())?;
        }
        Ok(listing.len())
    }

    #[test]
    fn pages_that_follow_each_other_are_taken() {
        assert_eq!(counted(vec![page(&["d/a", "d/b"], Some("1")), page(&["d/c"], None)]), Ok(3));
        assert_eq!(counted(vec![page(&[], Some("1")), page(&["d/c"], Some("2")), page(&[], None)]), Ok(1));
        assert_eq!(
            counted(vec![page(&["d/c", "d/a"], Some("1")), page(&["d/b"], None)]),
            Ok(3),
            "in no order"
        );
    }

    #[test]
    fn a_page_that_can_not_follow_is_refused() {
        for (pages, expected) in [
            (vec![page(&["other/a"], None)], "does not lie below 'd/'"),
            (vec![page(&["dd/a"], None)], "does not lie below 'd/'"),
            (vec![page(&["d/a"], Some("1")), page(&["d/b"], Some("1"))], "was there before"),
            (
                vec![page(&["d/a"], Some("1")), page(&["d/b"], Some("2")), page(&["d/c"], Some("1"))],
                "was there before",
            ),
            (vec![page(&["d/a"], Some("1")), page(&["d/a"], None)], "'d/a' was listed before"),
            (vec![page(&["d/a", "d/b"], Some("1")), page(&["d/c", "d/b"], None)], "'d/b' was listed before"),
            (vec![page(&["d/b", "d/a"], Some("1")), page(&["d/c", "d/a"], None)], "'d/a' was listed before"),
        ] {
            let found = counted(pages);
            assert!(found.as_ref().is_err_and(|found| found.contains(expected)), "{expected}: {found:?}");
        }
        let empty = (0..MOST_EMPTY + 5).map(|number| page(&[], Some(&number.to_string()))).collect();
        assert!(counted(empty).is_err());
    }

    #[test]
    fn a_page_is_what_its_root_says() {
        let check = |body: &str| check_page(body.as_bytes(), "ListBucketResult");
        let of = |inside: &str| {
            format!("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\">{inside}</ListBucketResult>")
        };
        for right in [
            of(""),
            of("<IsTruncated>false</IsTruncated><Contents><Key>IsTruncated</Key></Contents>"),
            of("<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"),
            of("<Contents><IsTruncated>true</IsTruncated></Contents>"),
            "<ListBucketResult/>".to_owned(),
        ] {
            assert_eq!(check(&right), Ok(()), "{right}");
        }
        for (wrong, seldom) in [
            (of("<IsTruncated>true</IsTruncated>"), true),
            (of("<IsTruncated> True </IsTruncated><NextContinuationToken/>"), true),
            (of("<IsTruncated>true</IsTruncated><NextContinuationToken> </NextContinuationToken>"), true),
            (String::new(), true),
            ("<ListBucketResult><Contents>".to_owned(), true),
            ("<html><body>Sign in</body></html>".to_owned(), true),
            ("<!DOCTYPE html><html><p>Sign in<br></html>".to_owned(), true),
            ("no XML".to_owned(), true),
            ("{}".to_owned(), true),
            ("<Error><Code>AccessDenied</Code></Error>".to_owned(), true),
            ("<Error><Code>SlowDown</Code></Error>".to_owned(), false),
            ("<Error><Code>InternalError</Code></Error>".to_owned(), false),
            ("<EnumerationResults/>".to_owned(), true),
        ] {
            let found = check(&wrong);
            let outlook = if seldom { Outlook::Seldom } else { Outlook::Moment(std::time::Duration::ZERO) };
            assert!(found.as_ref().is_err_and(|(_, found)| *found == outlook), "{wrong}: {found:?}");
        }
    }
}
