//! The numbers by which a model names elements of a page.

use std::collections::BTreeMap;

/// Numbers of the elements of one page after the other. A number is never used again, so that one of
/// an earlier page is known as such.
#[derive(Debug, Default)]
pub(crate) struct ElementRefs {
    document: u64,
    last: u32,
    first_of_document: u32,
    by_node: BTreeMap<i64, u32>,
    by_number: BTreeMap<u32, ElementRef>,
}

/// An element that a model has read about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ElementRef {
    /// Its node, as the browser numbers them.
    pub(crate) node: i64,
    /// Its role, such as `button`, and its name.
    pub(crate) shown: String,
}

/// Why a number names no element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefError {
    #[error("[{0}] is an element of an earlier page: look at the page that is open now")]
    Earlier(u32),
    #[error("there is no element [{0}] on this page: take a number from its last snapshot")]
    Unknown(u32),
    #[error("[{0}] is no longer on the page: take a new snapshot")]
    Gone(u32),
}

impl ElementRefs {
    /// Begins the elements of a document; nothing changes if it is the same one.
    pub(crate) fn begin(&mut self, document: u64) {
        if self.document != document {
            self.document = document;
            self.first_of_document = self.last + 1;
            self.by_node.clear();
            self.by_number.clear();
        }
    }

    /// Returns the number of an element, which is the same in each snapshot of a document.
    pub(crate) fn number(&mut self, element: ElementRef) -> u32 {
        let number = *self.by_node.entry(element.node).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.by_number.insert(number, element);
        number
    }

    /// Returns the element of a number in a document.
    pub(crate) fn get(&self, number: u32, document: u64) -> Result<&ElementRef, RefError> {
        if document != self.document && number <= self.last {
            return Err(RefError::Earlier(number));
        }
        self.by_number.get(&number).ok_or({
            if number >= 1 && number < self.first_of_document {
                RefError::Earlier(number)
            } else {
                RefError::Unknown(number)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_in_a_document_and_never_used_again() {
        let element = |node| ElementRef { node, shown: format!("button \"{node}\"") };
        let mut refs = ElementRefs::default();
        refs.begin(1);
        assert_eq!((refs.number(element(7)), refs.number(element(9))), (1, 2));
        refs.begin(1);
        assert_eq!((refs.number(element(9)), refs.number(element(8))), (2, 3));
        assert_eq!(refs.get(2, 1), Ok(&element(9)));
        assert_eq!(refs.get(2, 2), Err(RefError::Earlier(2)));
        refs.begin(2);
        assert_eq!(refs.number(element(7)), 4);
        assert_eq!(refs.get(1, 2), Err(RefError::Earlier(1)));
        assert_eq!(refs.get(5, 2), Err(RefError::Unknown(5)));
        assert_eq!(refs.get(0, 2), Err(RefError::Unknown(0)));
    }
}
