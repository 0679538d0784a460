//! The hashes under which a journal holds texts.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use deputize_core::ToolDecl;
use sha2::{Digest as _, Sha256};

/// How many texts are remembered. The children of a call share some, and each has one or two of its
/// own.
const REMEMBERED: usize = 16;

/// A text and its hash.
#[derive(Clone, Debug)]
pub(crate) struct HashedText {
    pub(crate) text: Arc<str>,
    pub(crate) hash: Arc<str>,
}

impl From<Arc<str>> for HashedText {
    fn from(text: Arc<str>) -> Self {
        let hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes())).into();
        Self { text, hash }
    }
}

/// The texts that the last agents began with. Most agents of a session share theirs, so these are
/// hashed once.
#[derive(Debug, Default)]
pub(crate) struct TextHashes {
    /// The one that was asked for last is the last.
    texts: Vec<HashedText>,
    tools: Option<(Vec<Arc<ToolDecl>>, HashedText)>,
}

impl TextHashes {
    /// Returns a text with its hash.
    pub(crate) fn text(&mut self, text: &Arc<str>) -> HashedText {
        let known = self.texts.iter().position(|known| Arc::ptr_eq(&known.text, text));
        let hashed =
            known.map_or_else(|| Arc::clone(text).into(), |index| self.texts.remove(index));
        if self.texts.len() == REMEMBERED {
            self.texts.remove(0);
        }
        self.texts.push(hashed.clone());
        hashed
    }

    /// Returns a list of tools as JSON, with its hash.
    pub(crate) fn tools(&mut self, tools: &[Arc<ToolDecl>]) -> HashedText {
        let is_same = |known: &[Arc<ToolDecl>]| {
            known.len() == tools.len()
                && known.iter().zip(tools).all(|(known, tool)| Arc::ptr_eq(known, tool))
        };
        if let Some((_, hashed)) = self.tools.as_ref().filter(|(known, _)| is_same(known)) {
            return hashed.clone();
        }
        let json = Arc::<str>::from(serde_json::to_string(tools).unwrap_or_default());
        let hashed = HashedText::from(json);
        self.tools = Some((tools.to_vec(), hashed.clone()));
        hashed
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::ToolName;
    use deputize_core::schema::Schema;

    use super::*;

    fn decl(name: &'static str) -> Arc<ToolDecl> {
        let parameters = Schema::new(&serde_json::json!({"type": "object"})).unwrap();
        let name = ToolName::literal(name);
        Arc::new(ToolDecl { name, description: "Does.".into(), parameters })
    }

    #[test]
    fn a_remembered_text_has_the_hash_of_its_own() {
        let mut hashes = TextHashes::default();
        let texts: Vec<Arc<str>> = (0..100).map(|n| format!("text {}", n % 90).into()).collect();
        for text in texts.iter().chain(&texts).chain([&texts[3]]) {
            let hashed = hashes.text(text);
            assert_eq!(hashed.text, *text);
            assert_eq!(*hashed.hash, *HashedText::from(Arc::clone(text)).hash);
        }
        assert_eq!(hashes.texts.len(), REMEMBERED);
    }

    #[test]
    fn a_list_of_tools_is_written_anew_when_it_is_another_one() {
        let mut hashes = TextHashes::default();
        let [a, b] = ["a", "b"].map(decl);
        for tools in [&[][..], &[Arc::clone(&a)], &[a.clone(), b.clone()], &[b, a]] {
            let json = serde_json::to_string(tools).unwrap();
            let expected = HashedText::from(Arc::<str>::from(json));
            for _ in 0..2 {
                let hashed = hashes.tools(tools);
                assert_eq!((&hashed.text, &hashed.hash), (&expected.text, &expected.hash));
            }
        }
    }
}
