//! Sets of sources.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::source::{Source, SourceKind};

/// A set of sources, in order. Every message has one, and most have the same few: copies share
/// them, and an empty set takes no memory.
///
/// ```
/// use deputize_core::source::Source;
/// use deputize_core::source_set::SourceSet;
/// let mut sources: SourceSet = [Source::user(), Source::host()].into();
/// sources.insert(Source::user());
/// assert_eq!(sources.iter().map(Source::to_string).collect::<Vec<_>>(), ["host", "user"]);
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SourceSet(Option<Arc<[Source]>>);

impl SourceSet {
    /// Returns an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    fn as_slice(&self) -> &[Source] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns whether it has no source.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of its sources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Returns its sources, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Source> {
        self.as_slice().iter()
    }

    /// Returns whether it has this source.
    #[must_use]
    pub fn contains(&self, source: &Source) -> bool {
        self.as_slice().binary_search(source).is_ok()
    }

    /// Adds a source.
    pub fn insert(&mut self, source: Source) {
        self.extend([source]);
    }

    /// Adds the sources of another set. An empty set shares them.
    pub fn add_all(&mut self, others: &Self) {
        if self.is_empty() {
            self.clone_from(others);
        } else {
            self.extend(others.iter().cloned());
        }
    }

    /// Returns those of some sources that are outside.
    pub fn outside<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Self {
        sources.into_iter().filter(|source| source.is_outside()).cloned().collect()
    }

    /// Returns the labels of its sources for a mark that stays when the session is over: of children
    /// only that there were some, because nobody knows their IDs then.
    #[must_use]
    pub fn lasting_labels(&self) -> Vec<String> {
        let is_child = |source: &&Source| source.kind() == SourceKind::Child;
        let others = self.iter().filter(|source| !is_child(source)).map(Source::to_string);
        let children = self.iter().any(|source| is_child(&source)).then(|| "children".to_owned());
        others.chain(children).collect()
    }
}

impl fmt::Debug for SourceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl Extend<Source> for SourceSet {
    fn extend<I: IntoIterator<Item = Source>>(&mut self, sources: I) {
        // What is there already, which is most, is not copied.
        let mut all: Option<Vec<Source>> = None;
        for source in sources {
            let known = all.as_deref().unwrap_or_else(|| self.as_slice());
            if let Err(place) = known.binary_search(&source) {
                all.get_or_insert_with(|| self.as_slice().to_vec()).insert(place, source);
            }
        }
        if let Some(all) = all {
            self.0 = Some(all.into());
        }
    }
}

impl FromIterator<Source> for SourceSet {
    fn from_iter<I: IntoIterator<Item = Source>>(sources: I) -> Self {
        let mut set = Self::new();
        set.extend(sources);
        set
    }
}

impl<const N: usize> From<[Source; N]> for SourceSet {
    fn from(sources: [Source; N]) -> Self {
        sources.into_iter().collect()
    }
}

impl<'s> IntoIterator for &'s SourceSet {
    type Item = &'s Source;
    type IntoIter = std::slice::Iter<'s, Source>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for SourceSet {
    type Item = Source;
    type IntoIter = std::vec::IntoIter<Source>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().to_vec().into_iter()
    }
}

impl Serialize for SourceSet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(s)
    }
}

impl<'de> Deserialize<'de> for SourceSet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Vec::<Source>::deserialize(d)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn parsed(labels: &[&str]) -> SourceSet {
        labels.iter().map(|label| label.parse().unwrap()).collect()
    }

    #[test]
    fn a_mark_that_stays_names_children_together() {
        let sources = parsed(&["child:s/1.0.0", "child:s/2.0.0", "mcp:docs", "web:a.example"]);
        assert_eq!(sources.lasting_labels(), ["mcp:docs", "web:a.example", "children"]);
        assert_eq!(SourceSet::outside(&sources), sources);
        let inside = [Source::user(), Source::tool("web_fetch")];
        assert_eq!(SourceSet::outside(&inside), SourceSet::new());
    }

    #[test]
    fn copies_share_their_sources_until_one_gets_another() {
        let sources = parsed(&["user", "web:a.example"]);
        let is_shared =
            |a: &SourceSet, b: &SourceSet| a.as_slice().as_ptr() == b.as_slice().as_ptr();
        let mut copy = SourceSet::new();
        copy.add_all(&sources);
        copy.add_all(&sources);
        copy.insert(Source::user());
        assert!(is_shared(&copy, &sources));
        copy.insert(Source::host());
        assert_eq!(copy, parsed(&["host", "user", "web:a.example"]));
        assert_eq!(sources.len(), 2);
        assert!(copy.contains(&Source::host()) && !sources.contains(&Source::host()));
    }

    #[test]
    fn an_empty_set_takes_no_memory_and_a_source_little() {
        assert!(SourceSet::new().0.is_none() && parsed(&[]).0.is_none());
        assert!(serde_json::from_str::<SourceSet>("[]").unwrap().is_empty());
        let sizes = (size_of::<SourceSet>(), size_of::<Source>());
        assert_eq!(sizes, (2 * size_of::<usize>(), 3 * size_of::<usize>()));
    }

    proptest! {
        #[test]
        fn it_is_the_set_that_the_standard_library_makes(names in prop::collection::vec("[a-d]", 0..9)) {
            let sources = names.iter().map(|name| match name.as_str() {
                "a" => Source::user(),
                name => Source::web(name),
            });
            let known: BTreeSet<Source> = sources.clone().collect();
            let set: SourceSet = sources.collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), known.iter().collect::<Vec<_>>());
            let json = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&known).unwrap());
            prop_assert_eq!(serde_json::from_str::<SourceSet>(&json).unwrap(), set.clone());
            prop_assert_eq!(format!("{set:?}"), format!("{known:?}"));
            prop_assert_eq!(set.into_iter().collect::<Vec<_>>(), known.into_iter().collect::<Vec<_>>());
        }
    }
}
