//! The versions of the pages that an agent reads in parts.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use deputize_core::Resource;
use tokio::sync::Mutex;

/// Pages whose versions are known, from the last one back.
const PAGES: usize = 100;

/// The digests of the texts of which an agent has read a part. Each part is fetched anew.
#[derive(Debug, Default)]
pub(crate) struct PageVersions {
    pages: Mutex<VecDeque<PageVersion>>,
}

impl Resource for PageVersions {}

#[derive(Debug)]
struct PageVersion {
    page: u64,
    text: u64,
}

impl PageVersions {
    /// Records the text of a page, and returns whether it is another than at the last time.
    pub(crate) async fn record(&self, url: &str, whole: bool, text: &str) -> bool {
        let digests = BuildHasherDefault::<DefaultHasher>::default();
        let version =
            PageVersion { page: digests.hash_one((url, whole)), text: digests.hash_one(text) };
        let mut pages = self.pages.lock().await;
        let known = pages.iter().position(|known| known.page == version.page);
        let before = known.and_then(|at| pages.remove(at));
        let has_changed = before.is_some_and(|before| before.text != version.text);
        pages.push_back(version);
        if pages.len() > PAGES {
            pages.pop_front();
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_is_compared_with_itself_as_long_as_there_is_room() {
        let versions = PageVersions::default();
        assert!(!versions.record("a", false, "one").await);
        assert!(!versions.record("a", true, "two").await);
        assert!(!versions.record("a", false, "one").await);
        assert!(versions.record("a", false, "two").await);
        for page in 0..PAGES {
            assert!(!versions.record(&format!("b{page}"), false, "b").await);
        }
        assert!(!versions.record("a", false, "three").await);
        assert_eq!(versions.pages.lock().await.len(), PAGES);
    }
}
